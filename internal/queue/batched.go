package queue

import "sync"

// BatchSize is how many keys are read under one hold of the lock.
const BatchSize = 1024

// BatchedKeys returns the keys of a map, in no order. The lock guards m; it is given back again and again, so keys that
// come and go meanwhile may be among them or not. between is called then, without the lock; nil is nothing.
func BatchedKeys[V any](lock sync.Locker, m *map[string]V, between func()) (keys []string) {
	lock.Lock()
	defer lock.Unlock()
	for key := range *m {
		if keys = append(keys, key); len(keys)%BatchSize == 0 {
			lock.Unlock() // a range over a map may go on after others have changed it
			if between != nil {
				between()
			}
			lock.Lock()
		}
	}
	return keys
}

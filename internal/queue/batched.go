package queue

import "sync"

// BatchSize is how many keys are looked at under one hold of the lock.
const BatchSize = 1024

// BatchedKeys returns the keys of those values of a map that choose chooses, in no order; nil chooses all. The lock
// guards m; it is given back again and again, so keys that come and go meanwhile may be among them or not. between is
// called then, without the lock; nil is nothing. choose is called under the lock.
func BatchedKeys[V any](lock sync.Locker, m *map[string]V, choose func(V) bool, between func()) (keys []string) {
	lock.Lock()
	defer lock.Unlock()
	looked := 0
	for key, value := range *m {
		if choose == nil || choose(value) {
			keys = append(keys, key)
		}
		if looked++; looked%BatchSize == 0 {
			lock.Unlock() // a range over a map may go on after others have changed it
			if between != nil {
				between()
			}
			lock.Lock()
		}
	}
	return keys
}

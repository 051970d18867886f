package apisource

import (
	"sync"
	"sync/atomic"
)

// manyKeys is the size from which an empty map is given up: a map never shrinks.
const manyKeys = 10_000

// table remembers a V of some keys. The zero V is not kept. It is made for being empty: then no lock is taken. Its
// methods may be called concurrently.
type table[V comparable] struct {
	// tally is called with each V that is dropped (-1) or kept (1), under the lock. It may be nil.
	tally func(v V, by int)

	size  atomic.Int64
	mu    sync.Mutex
	byKey map[string]V
	most  int // keys since the map was made
}

// of returns what is remembered of a key.
func (t *table[V]) of(key string) (v V) {
	if t.size.Load() == 0 {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// change lets f change what is remembered of a key.
func (t *table[V]) change(key string, f func(*V)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changeLocked(key, f)
}

// amend is change for a key of which something is remembered. Of any other key it does nothing.
func (t *table[V]) amend(key string, f func(*V)) {
	if t.size.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byKey[key]; known {
		t.changeLocked(key, f)
	}
}

// amendAll is amend for each key of which something is remembered.
func (t *table[V]) amendAll(f func(*V)) {
	if t.size.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.byKey {
		t.changeLocked(key, f)
	}
}

// forget drops what is remembered of a key.
func (t *table[V]) forget(key string) {
	t.amend(key, func(v *V) {
		var zero V
		*v = zero
	})
}

// where lists the keys of whose V f is true, in no order.
func (t *table[V]) where(f func(V) bool) (keys []string) {
	if t.size.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, v := range t.byKey {
		if f(v) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (t *table[V]) changeLocked(key string, f func(*V)) {
	var zero V
	before := t.byKey[key]
	after := before
	f(&after)
	if t.tally != nil {
		t.tally(before, -1)
		t.tally(after, 1)
	}
	if after == zero {
		delete(t.byKey, key)
	} else {
		if t.byKey == nil {
			t.byKey = map[string]V{}
		}
		t.byKey[key] = after
	}
	t.most = max(t.most, len(t.byKey))
	if len(t.byKey) == 0 && t.most > manyKeys {
		t.byKey, t.most = nil, 0
	}
	t.size.Store(int64(len(t.byKey)))
}

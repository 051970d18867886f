package controllerruntime

import (
	"sync"
	"sync/atomic"
)

// manyKeys is from how many keys on a map is given up once it is empty: a map never shrinks.
const manyKeys = 10_000

// keyed remembers something for each of some keys. It is made for what nearly always is empty: then nobody locks.
type keyed[V any] struct {
	size  atomic.Int64
	mu    sync.Mutex
	byKey map[string]V
	most  int // keys since the map was made
}

func (k *keyed[V]) put(key string, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.putLocked(key, v)
}

func (k *keyed[V]) putLocked(key string, v V) {
	if k.byKey == nil {
		k.byKey = map[string]V{}
	}
	k.byKey[key] = v
	k.countLocked()
}

func (k *keyed[V]) get(key string) (v V, ok bool) {
	if k.size.Load() == 0 {
		return v, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok = k.byKey[key]
	return v, ok
}

// take returns what is remembered for a key, and forgets it.
func (k *keyed[V]) take(key string) (v V, ok bool) {
	if k.size.Load() == 0 {
		return v, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok = k.byKey[key]; ok {
		delete(k.byKey, key)
		k.countLocked()
	}
	return v, ok
}

func (k *keyed[V]) forget(key string) { k.take(key) }

func (k *keyed[V]) len() int { return int(k.size.Load()) }

func (k *keyed[V]) countLocked() {
	k.most = max(k.most, len(k.byKey))
	if len(k.byKey) == 0 && k.most > manyKeys {
		k.byKey, k.most = nil, 0 // a map never shrinks
	}
	k.size.Store(int64(len(k.byKey)))
}

package entity

import (
	"sync"
	"sync/atomic"
)

// hookSet fans out to subscribers, and remembers what a new one has to know: which keys are invalid, which buckets
// cannot be watched, and the reserved keys.
type hookSet struct {
	mu       sync.Mutex // held during callbacks, so that a subscriber sees each key's news in order
	next     int
	subs     map[int]Hooks
	errors   map[string]error
	reserved map[string]reservedValue
	invalid  *invalidKeys
}

type reservedValue struct {
	revision uint64
	value    []byte
}

func newHookSet() *hookSet {
	return &hookSet{subs: map[int]Hooks{}, errors: map[string]error{}, reserved: map[string]reservedValue{}, invalid: newInvalidKeys()}
}

// reset forgets what the caches that have stopped knew.
func (h *hookSet) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.errors)
	clear(h.reserved)
	h.invalid.clear()
}

func (h *hookSet) subscribe(hooks Hooks) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.next
	h.next++
	h.subs[id] = hooks
	if hooks.Invalid != nil {
		for key, state := range h.invalid.all() {
			hooks.Invalid(key, state.revision, state.err)
		}
	}
	if hooks.Error != nil {
		for bucket, err := range h.errors {
			hooks.Error(bucket, err)
		}
	}
	if hooks.Reserved != nil {
		for name, v := range h.reserved {
			hooks.Reserved(name, v.revision, v.value)
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, id)
	}
}

func (h *hookSet) wantsReserved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hooks := range h.subs {
		if hooks.Reserved != nil {
			return true
		}
	}
	return false
}

func (h *hookSet) setInvalid(key string, revision uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invalid.set(key, revision, err)
	for _, hooks := range h.subs {
		if hooks.Invalid != nil {
			hooks.Invalid(key, revision, err)
		}
	}
}

func (h *hookSet) setResolved(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invalid.remove(key)
	for _, hooks := range h.subs {
		if hooks.Resolved != nil {
			hooks.Resolved(key)
		}
	}
}

func (h *hookSet) setError(bucket string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.errors, bucket)
	} else {
		h.errors[bucket] = err
	}
	for _, hooks := range h.subs {
		if hooks.Error != nil {
			hooks.Error(bucket, err)
		}
	}
}

// setReserved takes nil for a delete.
func (h *hookSet) setReserved(name string, revision uint64, value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if value == nil {
		delete(h.reserved, name)
	} else {
		h.reserved[name] = reservedValue{revision, value}
	}
	for _, hooks := range h.subs {
		if hooks.Reserved != nil {
			hooks.Reserved(name, revision, value)
		}
	}
}

// invalidKeys are the keys whose document does not decode, for the lister. It has a lock of its own, so that a callback
// may read the lister.
type invalidKeys struct {
	size atomic.Int64
	mu   sync.RWMutex
	keys map[string]invalidKey
}

type invalidKey struct {
	revision uint64
	err      error
}

func newInvalidKeys() *invalidKeys { return &invalidKeys{keys: map[string]invalidKey{}} }

func (k *invalidKeys) set(key string, revision uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[key] = invalidKey{revision, err}
	k.size.Store(int64(len(k.keys)))
}

func (k *invalidKeys) remove(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
	k.size.Store(int64(len(k.keys)))
}

func (k *invalidKeys) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.keys)
	k.size.Store(0)
}

func (k *invalidKeys) get(key string) (invalidKey, bool) {
	if k.size.Load() == 0 {
		return invalidKey{}, false
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	state, ok := k.keys[key]
	return state, ok
}

func (k *invalidKeys) all() map[string]invalidKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := make(map[string]invalidKey, len(k.keys))
	for key, state := range k.keys {
		out[key] = state
	}
	return out
}

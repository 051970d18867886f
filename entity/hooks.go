package entity

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// hookSet passes the news of one generation of informers to all subscribers.
type hookSet struct {
	mu    sync.Mutex // held during callbacks, so that a subscriber sees each key's news in order
	next  int
	subs  map[int]Hooks
	state *hookState

	listeners atomic.Int32 // of subs, those with Arrived
}

// hookState is what a new subscriber has to know: the invalid keys, the buckets that cannot be watched, and the
// reserved keys. Each generation has its own, so that one that is stopping does not speak for the next.
type hookState struct {
	hooks    *hookSet
	invalid  *invalidKeys
	errors   map[string]error
	settings map[string]error // by bucket
	reserved map[string]reservedValue
}

type reservedValue struct {
	revision uint64
	value    []byte
}

func newHookSet() *hookSet {
	h := &hookSet{subs: map[int]Hooks{}}
	h.renew()
	return h
}

// renew makes an empty state for another generation, and makes it the current one.
func (h *hookSet) renew() *hookState {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = &hookState{
		hooks: h, invalid: newInvalidKeys(), errors: map[string]error{}, settings: map[string]error{},
		reserved: map[string]reservedValue{},
	}
	return h.state
}

// over replaces the state by an empty one, if it is still the current one.
func (s *hookState) over() {
	s.hooks.mu.Lock()
	counts := s.hooks.state == s
	s.hooks.mu.Unlock()
	if counts {
		s.hooks.renew()
	}
}

// tell changes the state. If the state is the current one, it calls the subscribers.
func (s *hookState) tell(change func(), call func(Hooks)) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	change()
	if s.hooks.state != s {
		return
	}
	for _, hooks := range s.hooks.subs {
		call(hooks)
	}
}

func (h *hookSet) subscribe(hooks Hooks) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.next
	h.next++
	h.subs[id] = hooks
	if hooks.Arrived != nil {
		h.listeners.Add(1)
	}
	if hooks.Invalid != nil {
		for key, state := range h.state.invalid.all() {
			hooks.Invalid(key, state.revision, state.err)
		}
	}
	if hooks.Error != nil {
		for bucket, err := range h.state.errors {
			hooks.Error(bucket, err)
		}
	}
	if hooks.Settings != nil {
		for bucket, err := range h.state.settings {
			hooks.Settings(bucket, err)
		}
	}
	if hooks.Reserved != nil {
		for name, v := range h.state.reserved {
			hooks.Reserved(name, v.revision, v.value)
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, subscribed := h.subs[id]; subscribed && hooks.Arrived != nil {
			h.listeners.Add(-1)
		}
		delete(h.subs, id)
	}
}

// barrier returns when no callback runs that began before.
func (h *hookSet) barrier() {
	h.mu.Lock()
	defer h.mu.Unlock()
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

// hearsErrors reports whether a subscriber is told of errors. The engine is, which logs them with its controller.
func (s *hookState) hearsErrors() bool {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	for _, hooks := range s.hooks.subs {
		if s.hooks.state == s && hooks.Error != nil {
			return true
		}
	}
	return false
}

// arrived passes a message on. Mostly there is no listener, and then it costs nothing.
func (s *hookState) arrived(bucket string, entry natsinformer.Entry) {
	if s.hooks.listeners.Load() == 0 {
		return
	}
	s.tell(func() {}, func(hooks Hooks) {
		if hooks.Arrived != nil {
			hooks.Arrived(bucket, entry)
		}
	})
}

func (s *hookState) setInvalid(key string, revision uint64, err error) {
	s.tell(func() { s.invalid.set(key, revision, err) }, func(hooks Hooks) {
		if hooks.Invalid != nil {
			hooks.Invalid(key, revision, err)
		}
	})
}

func (s *hookState) setResolved(key string) {
	s.tell(func() { s.invalid.remove(key) }, func(hooks Hooks) {
		if hooks.Resolved != nil {
			hooks.Resolved(key)
		}
	})
}

// setReadable is for the key of a record.
func (s *hookState) setReadable(key string) {
	s.tell(func() {}, func(hooks Hooks) {
		if hooks.Readable != nil {
			hooks.Readable(key)
		}
	})
}

func (s *hookState) setError(bucket string, err error) {
	s.tell(func() {
		if err == nil {
			delete(s.errors, bucket)
		} else {
			s.errors[bucket] = err
		}
	}, func(hooks Hooks) {
		if hooks.Error != nil {
			hooks.Error(bucket, err)
		}
	})
}

// setReserved sets the value of a reserved key; nil means that it was deleted.
func (s *hookState) setReserved(name string, revision uint64, value []byte) {
	s.tell(func() {
		if value == nil {
			delete(s.reserved, name)
		} else {
			s.reserved[name] = reservedValue{revision, value}
		}
	}, func(hooks Hooks) {
		if hooks.Reserved != nil {
			hooks.Reserved(name, revision, value)
		}
	})
}

// invalidKeys are the keys whose document does not decode, for the lister. They have their own lock, so that a callback
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

// reasonsKept is of how many keys the error is kept. A writer can make any number of keys that are wrong.
const reasonsKept = 10_000

func (k *invalidKeys) set(key string, revision uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, known := k.keys[key]
	if len(k.keys) >= reasonsKept && (!known || errors.Is(before.err, natsinformer.ErrManyInvalid)) {
		err = natsinformer.ErrManyInvalid
	}
	k.keys[key] = invalidKey{revision, err}
	k.size.Store(int64(len(k.keys)))
}

func (k *invalidKeys) remove(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
	k.size.Store(int64(len(k.keys)))
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

// some returns up to n keys, those that are named already first.
func (k *invalidKeys) some(n int, named []string) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for key := range k.keys {
		if len(named) >= n {
			break
		}
		if !slices.Contains(named, key) {
			named = append(named, key)
		}
	}
	return named
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

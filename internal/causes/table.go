package causes

import (
	"slices"
	"sync"
)

const (
	// Most is how many causes of one reconcile are kept, the newest ones.
	Most = 16
	// mostKeys bounds the keys that have causes. What is due is reconciled soon, so there are few, unless many keys
	// wait: of those the oldest lose theirs.
	mostKeys = 32 << 10
	// mostTries is how many reconciles the same causes are given to, while the key is not as it should be.
	mostTries = 10
)

// Set is what made a key due.
type Set struct {
	Causes []Cause // the oldest first
	More   int     // how many older ones there were
	tries  int     // to how many reconciles they were given
}

func (s *Set) keep(causes []Cause) {
	if excess := len(causes) - Most; excess > 0 {
		s.More += excess
		causes = slices.Clone(causes[excess:])
	}
	s.Causes = causes
}

// Table has the causes of the keys that are due. A nil Table keeps none.
type Table struct {
	mu       sync.Mutex
	now, old map[string]*Set // old is dropped when now is full
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{now: map[string]*Set{}} }

func (t *Table) of(key string) *Set {
	if s := t.now[key]; s != nil {
		return s
	}
	return t.old[key]
}

func (t *Table) set(key string, s *Set) {
	if t.now[key] == nil && len(t.now) >= mostKeys {
		t.now, t.old = map[string]*Set{}, t.now
	}
	delete(t.old, key)
	t.now[key] = s
}

// Add notes that c is about to make a key due.
func (t *Table) Add(key string, c *Cause) {
	if t == nil || c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(key)
	if s == nil {
		s = &Set{}
	}
	if slices.Contains(s.Causes, *c) { // it concerned the key as it was before, and as it is now
		return
	}
	s.keep(append(s.Causes, *c))
	s.tries = 0
	t.set(key, s)
}

// Remove takes c back: it did not make the key due.
func (t *Table) Remove(key string, c *Cause) {
	if t == nil || c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(key)
	if s == nil {
		return
	}
	s.Causes = slices.DeleteFunc(s.Causes, func(other Cause) bool { return other == *c })
	if len(s.Causes) == 0 {
		t.forget(key)
	}
}

// Take returns what made a key due, for its reconcile, and forgets it.
func (t *Table) Take(key string) Set {
	if t == nil {
		return Set{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(key)
	if s == nil {
		return Set{}
	}
	t.forget(key)
	s.tries++
	return *s
}

// Settle ends the reconcile that was given what Take returned. If it is unfinished the next one of the key gets that
// again. Causes that were tried often are forgotten, so that a trace does not grow for ever.
func (t *Table) Settle(key string, s Set, unfinished bool) {
	if t == nil || !unfinished || len(s.Causes) == 0 || s.tries >= mostTries {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	both := &Set{More: s.More, Causes: s.Causes, tries: s.tries}
	if newer := t.of(key); newer != nil {
		both.More, both.tries = s.More+newer.More, newer.tries
		both.keep(slices.Concat(s.Causes, newer.Causes))
	}
	t.set(key, both)
}

// Forget forgets a key that is gone.
func (t *Table) Forget(key string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(key)
}

// Clear forgets all keys.
func (t *Table) Clear() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now, t.old = map[string]*Set{}, nil
}

func (t *Table) forget(key string) {
	delete(t.now, key)
	delete(t.old, key)
}

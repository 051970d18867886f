package causes

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// Most is how many causes of one reconcile are kept, the newest ones.
	Most = 16
	// mostCauses and mostBytes bound what all keys have together. What is due is reconciled soon, so that is little,
	// unless many keys wait: of those the oldest lose their causes, and the numbers of the last that did are kept.
	mostCauses = 16 << 10
	mostBytes  = 8 << 20
	// mostTries is how many reconciles the same causes are given to, while the key is not as it should be.
	mostTries = 10
)

// Set is what made a key due. Its Causes do not change: who took them may keep them.
type Set struct {
	Causes []Cause // the oldest first
	More   int     // how many older ones there were
	tries  int     // to how many reconciles they were given
}

// with is s and newer causes.
func (s Set) with(newer ...Cause) Set {
	all := slices.Concat(s.Causes, newer)
	excess := max(0, len(all)-Most)
	s.More, s.Causes = s.More+excess, all[excess:]
	return s
}

// perKey and perCause are about what a key and a cause take beside their text.
const perKey, perCause = 128, 96

func (s Set) bytes(key string) int {
	n := perKey + len(key)
	for i := range s.Causes {
		c := &s.Causes[i]
		n += perCause + len(c.Bucket) + len(c.Key) + len(c.TraceParent) + len(c.TraceState)
	}
	return n
}

// generation has the causes of keys that became due at about the same time.
type generation struct {
	sets          map[string]Set
	causes, bytes int
}

func (g *generation) drop(key string) {
	s, ok := g.sets[key]
	if !ok {
		return
	}
	delete(g.sets, key)
	g.causes -= len(s.Causes)
	g.bytes -= s.bytes(key)
}

// Table has the causes of the keys that are due. A nil Table keeps none.
type Table struct {
	mu       sync.Mutex
	now, old generation     // each has half of what may be kept; old is dropped when now is full
	more     map[string]int // how many causes the keys had that were dropped last

	// kept says that it is not empty. Most reconciles have no causes: a look at it is all that they cost.
	kept atomic.Bool
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{now: generation{sets: map[string]Set{}}} }

func (t *Table) of(key string) Set {
	if s, ok := t.now.sets[key]; ok {
		return s
	}
	if s, ok := t.old.sets[key]; ok {
		return s
	}
	return Set{More: t.more[key]}
}

func (t *Table) set(key string, s Set) {
	t.forget(key)
	if t.now.causes+len(s.Causes) > mostCauses/2 || t.now.bytes+s.bytes(key) > mostBytes/2 {
		t.more = make(map[string]int, len(t.old.sets))
		for key, s := range t.old.sets {
			t.more[key] = s.More + len(s.Causes)
		}
		t.old, t.now = t.now, generation{sets: map[string]Set{}}
	}
	t.now.sets[key] = s
	t.now.causes += len(s.Causes)
	t.now.bytes += s.bytes(key)
	t.kept.Store(true)
}

// Add notes that c is about to make a key due.
func (t *Table) Add(key string, c *Cause) {
	if t == nil || c == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(key)
	if slices.Contains(s.Causes, *c) { // it concerned the key as it was before, and as it is now
		return
	}
	s = s.with(*c)
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
	at := slices.Index(s.Causes, *c)
	if at < 0 {
		return
	}
	if s.Causes = slices.Concat(s.Causes[:at], s.Causes[at+1:]); len(s.Causes) == 0 {
		t.remove(key)
		return
	}
	t.set(key, s)
}

// Take returns what made a key due, for its reconcile, and forgets it.
func (t *Table) Take(key string) Set {
	if t == nil || !t.kept.Load() {
		return Set{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(key)
	t.remove(key)
	s.tries++
	return s
}

// Settle ends the reconcile that was given what Take returned. If it is unfinished the next one of the key gets that
// again. Causes that were tried often are forgotten, so that a trace does not grow for ever.
func (t *Table) Settle(key string, s Set, unfinished bool) {
	if t == nil || !unfinished || len(s.Causes) == 0 || s.tries >= mostTries {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if newer := t.of(key); len(newer.Causes) > 0 {
		s = s.with(newer.Causes...)
		s.More, s.tries = s.More+newer.More, newer.tries
	}
	t.set(key, s)
}

// Forget forgets a key that is gone, or that is not reconciled for now.
func (t *Table) Forget(key string) {
	if t == nil || !t.kept.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(key)
}

// Clear forgets all keys.
func (t *Table) Clear() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now, t.old, t.more = generation{sets: map[string]Set{}}, generation{}, nil
	t.kept.Store(false)
}

// remove is forget where nothing comes in its place.
func (t *Table) remove(key string) {
	t.forget(key)
	t.kept.Store(len(t.now.sets)+len(t.old.sets)+len(t.more) > 0)
}

func (t *Table) forget(key string) {
	t.now.drop(key)
	t.old.drop(key)
	delete(t.more, key)
}

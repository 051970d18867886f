package source

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Roster is the sources of one controller, of which some come and go while it runs. The zero value has none. All
// methods may be called concurrently.
type Roster struct {
	mu   sync.Mutex // of changes
	now  atomic.Pointer[Group]
	made int
}

// Group is what the roster has now, in the order in which they came. It must not be modified.
func (r *Roster) Group() Group {
	if now := r.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Add adds a source.
func (r *Roster) Add(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := append(slices.Clone(r.Group()), s)
	r.now.Store(&changed)
	r.made++
}

// Has reports whether the roster has a source.
func (r *Roster) Has(s fmt.Stringer) bool {
	return slices.ContainsFunc(r.Group(), func(one Source) bool { return fmt.Stringer(one) == s })
}

// Made counts what was ever added.
func (r *Roster) Made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// Remove takes a source away, if the roster has it.
func (r *Roster) Remove(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := slices.DeleteFunc(slices.Clone(r.Group()), func(other Source) bool { return other == s })
	r.now.Store(&changed)
}

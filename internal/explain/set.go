package explain

import (
	"maps"
	"slices"
	"sync"
)

// Set is a set of keys of which pages are read in the order of the alphabet. A page costs what it shows, however many
// keys there are. The zero Set is empty. All methods may be called concurrently.
//
// The keys are in a slice that is never written again, and what came and went since is beside it. When that is much, a
// reader makes another slice, without the lock.
type Set struct {
	mu      sync.Mutex
	sorted  []string
	changes map[string]bool // by key: whether it came, or went
	folding sync.Mutex      // one reader makes the next slice
}

// mostChanges is how much may be beside the slice when a page is read.
const mostChanges = 1024

// Put puts a key in, or takes it out.
func (s *Set) Put(key string, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, was := slices.BinarySearch(s.sorted, key); was == in {
		delete(s.changes, key)
		return
	}
	if s.changes == nil {
		s.changes = map[string]bool{}
	}
	s.changes[key] = in
}

// Load begins with these keys, which are sorted. What was put before is newer.
func (s *Set) Load(sorted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorted = sorted
}

// runs returns what the set has now.
func (s *Set) runs() []run {
	s.mu.Lock()
	much := len(s.changes) > mostChanges
	s.mu.Unlock()
	if much {
		s.fold()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return runsOf(s.sorted, s.changes)
}

// runsOf are sorted keys with changes.
func runsOf(sorted []string, changes map[string]bool) []run {
	var came []string
	var gone map[string]bool
	for key, in := range changes {
		if in {
			came = append(came, key)
			continue
		}
		if gone == nil {
			gone = map[string]bool{}
		}
		gone[key] = true
	}
	slices.Sort(came)
	return []run{{keys: sorted, gone: gone}, {keys: came}}
}

// fold makes the next slice.
func (s *Set) fold() {
	s.folding.Lock()
	defer s.folding.Unlock()
	s.mu.Lock()
	if len(s.changes) <= mostChanges { // another reader was faster
		s.mu.Unlock()
		return
	}
	before, folded := s.sorted, maps.Clone(s.changes)
	s.mu.Unlock()
	next := make([]string, 0, len(before)+len(folded))
	for key := range merged(runsOf(before, folded)) {
		next = append(next, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorted = next
	for key, in := range folded {
		if _, changed := s.changes[key]; changed {
			delete(s.changes, key) // Put knows no other change than to what the slice had not
		} else {
			s.changes[key] = !in // it went back meanwhile
		}
	}
}

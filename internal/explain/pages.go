package explain

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// run is sorted keys, but for those that are gone.
type run struct {
	keys []string
	gone map[string]bool
}

// trim drops what is gone from the front.
func (r *run) trim() {
	for len(r.keys) > 0 && r.gone[r.keys[0]] {
		r.keys = r.keys[1:]
	}
}

// merged iterates over the keys of runs in the order of the alphabet, over each once.
func merged(runs []run) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := slices.Clone(runs)
		for {
			first := ""
			found := false
			for i := range rest {
				rest[i].trim()
				if keys := rest[i].keys; len(keys) > 0 && (!found || keys[0] < first) {
					first, found = keys[0], true
				}
			}
			if !found {
				return
			}
			for i := range rest {
				for len(rest[i].keys) > 0 && rest[i].keys[0] == first {
					rest[i].keys = rest[i].keys[1:]
				}
			}
			if !yield(first) {
				return
			}
		}
	}
}

// between are those of sorted keys that begin with a prefix and come after a key.
func between(sorted []string, prefix, after string) []string {
	from, found := slices.BinarySearch(sorted, max(prefix, after))
	if found && after >= prefix {
		from++
	}
	sorted = sorted[from:]
	to, _ := slices.BinarySearchFunc(sorted, prefix, func(key, prefix string) int {
		if key < prefix || strings.HasPrefix(key, prefix) {
			return -1
		}
		return 1
	})
	return sorted[:to]
}

// snapshot is a sorted list of keys whose origin has no order. One of few keys is made for each page. One of many is
// kept for fifty times as long as it took to make it, so that making them is a fiftieth of the time at most.
type snapshot struct {
	mu        sync.Mutex // held while a list is made: those who ask meanwhile get the same one
	keys      []string
	malformed map[string]string
	until     time.Time
}

const (
	fewKeys   = 1024
	keptTimes = 50
)

// list returns the list, which of it is malformed, and how many keys were copied for it.
func (s *snapshot) list(
	keys func() ([]string, map[string]string),
) (sorted []string, malformed map[string]string, copied int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.Before(s.until) {
		return s.keys, s.malformed, 0
	}
	listed, malformed := keys()
	slices.Sort(listed)
	s.keys, s.malformed, s.until = nil, nil, time.Time{}
	if len(listed) > fewKeys {
		now := time.Now()
		s.keys, s.malformed, s.until = listed, malformed, now.Add(keptTimes*now.Sub(began))
	}
	return listed, malformed, len(listed)
}

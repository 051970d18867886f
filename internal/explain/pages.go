package explain

import (
	"iter"
	"slices"
	"strings"
	"sync"
)

// run is sorted keys, but for those that are gone.
type run struct {
	keys []string
	gone map[string]bool // by key
	left *left           // by place
	at   int             // the place of the first of keys
}

// trim drops what is gone from the front.
func (r *run) trim() {
	for len(r.keys) > 0 && r.gone[r.keys[0]] {
		r.skip(1)
	}
	if r.left != nil {
		r.skip(min(r.left.from(r.at)-r.at, len(r.keys)))
	}
}

func (r *run) skip(n int) { r.keys, r.at = r.keys[n:], r.at+n }

// between are those keys of a run that begin with a prefix and come after a key.
func (r run) between(prefix, after string) run {
	from, found := slices.BinarySearch(r.keys, max(prefix, after))
	if found && after >= prefix {
		from++
	}
	r.skip(from)
	to, _ := slices.BinarySearchFunc(r.keys, prefix, func(key, prefix string) int {
		if key < prefix || strings.HasPrefix(key, prefix) {
			return -1
		}
		return 1
	})
	r.keys = r.keys[:to]
	return r
}

// merged iterates over the keys of runs in the order of the alphabet, over each once. drop takes the key that was
// iterated over last out of the runs that can forget one.
func merged(runs []run) iter.Seq2[string, func()] {
	return func(yield func(key string, drop func()) bool) {
		rest := slices.Clone(runs)
		has := make([]bool, len(rest)) // the run had the last key
		drop := func() {
			for i := range rest {
				if has[i] && rest[i].left != nil {
					rest[i].left.add(rest[i].at - 1)
				}
			}
		}
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
				if has[i] = len(rest[i].keys) > 0 && rest[i].keys[0] == first; has[i] {
					rest[i].skip(1)
				}
			}
			if !yield(first, drop) {
				return
			}
		}
	}
}

// left are places in a list whose keys have left it. Each was looked at once, and is passed over from then on. The zero
// left has none. Its methods may be called concurrently.
type left struct {
	mu   sync.Mutex
	next []int32 // by place: 0 if its key has not left, else a place behind it, and all keys before that have left
}

// add notes that the key at a place has left.
func (l *left) add(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if more := place + 1 - len(l.next); more > 0 {
		l.next = append(l.next, make([]int32, more)...)
	}
	l.next[place] = int32(l.fromLocked(place + 1))
}

// from returns the first place, at this one or behind it, whose key has not left.
func (l *left) from(place int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fromLocked(place)
}

func (l *left) fromLocked(place int) int {
	to := place
	for to < len(l.next) && l.next[to] > 0 {
		to = int(l.next[to])
	}
	for place < to { // the way that was gone is short from now on
		next := int(l.next[place])
		l.next[place] = int32(to)
		place = next
	}
	return to
}

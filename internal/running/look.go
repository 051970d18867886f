package running

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// endedPlaces is of how many keys the last run is kept. Each key has one place, and a later run of another key that has
// the same takes it: that bounds the memory, and costs next to nothing.
const endedPlaces = 1024

var endedSeed = maphash.MakeSeed()

// Ended is the last run of a key.
type Ended struct {
	Key  string
	At   time.Time
	Took time.Duration
}

// Keep is End of a reconcile that took so long. It is kept for LastOf.
func (t *Table) Keep(r *Run, took time.Duration) {
	place := endedPlace(r.Key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = &[endedPlaces]Ended{}
	}
	t.ended[place] = Ended{Key: r.Key, At: r.Since.Add(took), Took: took}
	t.endLocked(r)
}

func endedPlace(key string) uint64 { return maphash.String(endedSeed, key) % endedPlaces }

// LastOf is the last run of a key that has ended; zero if it is not known any more.
func (t *Table) LastOf(key string) Ended {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		return Ended{}
	}
	if ended := t.ended[endedPlace(key)]; ended.Key == key {
		return ended
	}
	return Ended{}
}

// Slowest are the last runs that took longest, of those that ended at or after since: at most so many, the longest
// first.
func (t *Table) Slowest(most int, since time.Time) (slowest []Ended) {
	t.mu.Lock()
	if t.ended != nil {
		for _, ended := range t.ended {
			if ended.Key != "" && !ended.At.Before(since) {
				slowest = append(slowest, ended)
			}
		}
	}
	t.mu.Unlock()
	slices.SortFunc(slowest, func(a, b Ended) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), strings.Compare(a.Key, b.Key))
	})
	return slowest[:min(len(slowest), most)]
}

// Of is the reconcile of a key that is under way; zero if none is.
func (t *Table) Of(key string) Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := t.oldest; r != nil; r = r.next {
		if r.Key == key {
			return r.copy()
		}
	}
	return Run{}
}

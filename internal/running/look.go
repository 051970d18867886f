package running

import (
	"hash/maphash"
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

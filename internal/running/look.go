package running

import (
	"hash/maphash"
	"time"
)

// The last run is kept of as many keys as have place: each has one of a few places, and takes the oldest. That bounds
// the memory.
const (
	endedSets   = 128
	endedPlaces = 8
)

var endedSeed = maphash.MakeSeed()

// Ended is the last run of a key.
type Ended struct {
	Key  string
	At   time.Time
	Took time.Duration
}

// Keep is End of a reconcile that took so long. It is kept for LastOf.
func (t *Table) Keep(r *Run, took time.Duration) {
	set := maphash.String(endedSeed, r.Key) % endedSets
	t.mu.Lock()
	defer t.mu.Unlock()
	key, at := r.Key, r.Since.Add(took)
	t.endLocked(r)
	if t.ended == nil {
		t.ended = &[endedSets][endedPlaces]Ended{}
	}
	places := &t.ended[set]
	oldest := 0
	for i := range places {
		if places[i].Key == key {
			oldest = i
			break
		}
		if places[i].At.Before(places[oldest].At) {
			oldest = i
		}
	}
	places[oldest] = Ended{Key: key, At: at, Took: took}
}

// LastOf is the last run of a key that has ended; zero if it is not known any more.
func (t *Table) LastOf(key string) Ended {
	set := maphash.String(endedSeed, key) % endedSets
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		return Ended{}
	}
	for _, ended := range t.ended[set] {
		if ended.Key == key {
			return ended
		}
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

package running

import (
	"hash/maphash"
	"time"
)

// endedKept is of how many keys the last run is kept. It bounds the memory; a key whose place another one took since
// has none.
const endedKept = 512

var endedSeed = maphash.MakeSeed()

// Ended is the last run of a key.
type Ended struct {
	Key  string
	At   time.Time
	Took time.Duration
}

// Keep is End of a reconcile that took so long. It is kept for LastOf.
func (t *Table) Keep(r *Run, took time.Duration) {
	place := maphash.String(endedSeed, r.Key) % endedKept
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(r)
	if t.ended == nil {
		t.ended = &[endedKept]Ended{}
	}
	t.ended[place] = Ended{Key: r.Key, At: r.Since.Add(took), Took: took}
}

// LastOf is the last run of a key that has ended; zero if it is not known any more.
func (t *Table) LastOf(key string) Ended {
	place := maphash.String(endedSeed, key) % endedKept
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil || t.ended[place].Key != key {
		return Ended{}
	}
	return t.ended[place]
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

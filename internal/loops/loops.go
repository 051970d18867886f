// Package loops finds reconciles that wake themselves: a reconcile writes something, the event of that write makes its
// key due, and it writes again.
//
// The rule: a run that nothing but the key's own doing caused counts, and so many in a row are a loop. Own doing is an
// event of a write that an earlier run of the key made, to an object whose write has caused a run before, and a
// RequeueAfter that is no pause. What anybody else does
// ends the count, and with it the delay: a change of the primary, of a secondary or of what is watched, a request by
// hand, drift behind an API. A retry and a resync neither count nor end it.
//
// A key costs nothing while it is calm: [Suspects] notices keys that write run after run, and only those get a [Trail].
package loops

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

const (
	// Most is how many runs in a row a key's own doing may cause; then they are a loop.
	Most = 10
	// ShortestRequeue is the least that RequeueAfter means. A shorter one is no pause; who says a longer one means it.
	ShortestRequeue = time.Millisecond

	// The delay of a run that only own doing caused. It doubles with each.
	shortestDelay = 20 * time.Millisecond
	longestDelay  = 5 * time.Second
)

// suspicious is how many runs in a row must have written something, or asked for the next without a pause. The first
// writes what is to be, and the second, which the first one caused, has nothing to write if all is well.
const suspicious = 2

// Suspects notices keys that write in each run. It has room for some hundreds of keys and forgets one for another, so
// it takes no memory for calm ones; a key that loops soon comes again. The zero value is ready, and its methods may be
// called concurrently.
type Suspects struct {
	slots [512]atomic.Uint64 // a hash of a key, and in the lowest byte how many runs in a row
}

var seed = maphash.MakeSeed()

// Busy notes a run that wrote something, or asked for the next without a pause. It reports whether there were so many
// in a row that the key deserves a Trail.
func (s *Suspects) Busy(key string) bool {
	slot, id := s.slot(key)
	runs := uint64(1)
	if before := slot.Load(); before&^0xff == id {
		runs = min(before&0xff+1, suspicious)
	}
	slot.Store(id | runs)
	return runs >= suspicious
}

// Calm notes a run that wrote nothing.
func (s *Suspects) Calm(key string) {
	if slot, id := s.slot(key); slot.Load()&^0xff == id {
		slot.Store(0)
	}
}

func (s *Suspects) slot(key string) (slot *atomic.Uint64, id uint64) {
	hash := maphash.String(seed, key)
	return &s.slots[hash%uint64(len(s.slots))], hash &^ 0xff
}

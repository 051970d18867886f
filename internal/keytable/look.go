package keytable

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Fails notes an error in words.
func (s *State) Fails(message string, awaitsName bool) {
	if s.Trouble.Since.IsZero() {
		s.Trouble.Since = time.Now()
	}
	s.Trouble.Error, s.Trouble.AwaitsName = message, awaitsName
}

// WouldStayParked is StaysParked of the Table, and changes nothing.
func (s *State) WouldStayParked(v source.View, ops operation.Operations) bool {
	return s.Parked != nil && s.Parked.isAt(v) && !ops.WakesParked()
}

// AwaitsWrites is since when the key waits until the caches show what its last reconcile wrote; zero: it does not.
func (s *State) AwaitsWrites() time.Time { return s.awaitsWrites }

// NoteAwaits notes what a key waits for from now on.
func (k *Table) NoteAwaits(key, kind string, away bool) {
	k.Change(key, func(s *State) { s.Awaits = Awaits{kind, away, time.Now()} })
}

// EndAwaits notes that a key waits no longer: it is handed out. It takes no lock while none waits.
func (k *Table) EndAwaits(key string) {
	if k.awaited.Load() > 0 {
		k.Amend(key, func(s *State) { s.Awaits = Awaits{} })
	}
}

// keysBatch is how many keys are read under one hold of the lock.
const keysBatch = 1024

// Keys returns the keys that have a State, in no order. It gives the lock back again and again, so keys that come and
// go meanwhile may be among them or not.
func (k *Table) Keys() (keys []string) { return k.keys(func() {}) }

// keys calls between whenever it does not hold the lock.
func (k *Table) keys(between func()) (keys []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.byKey {
		if keys = append(keys, key); len(keys)%keysBatch == 0 {
			k.mu.Unlock() // a range over a map may go on after others have changed it
			between()
			k.mu.Lock()
		}
	}
	return keys
}

package keytable

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/queue"
)

// Fails notes an error in words.
func (s *State) Fails(message string, awaitsName bool) {
	if s.Trouble.Since.IsZero() {
		s.Trouble.Since = time.Now()
	}
	s.Trouble.Error, s.Trouble.AwaitsName = message, awaitsName
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

// KeysWhere returns the keys whose State f chooses, in no order. Keys that come and go meanwhile may be among them or
// not. f runs under the lock, which is given back again and again.
func (k *Table) KeysWhere(f func(*State) bool) []string {
	if k.size.Load() == 0 {
		return nil
	}
	return queue.BatchedKeys(&k.mu, &k.byKey, f, nil)
}

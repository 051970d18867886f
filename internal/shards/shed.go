package shards

import (
	"bytes"
	"time"
)

// shed has the host forget what the member does not need any more. From before that on it is not ready for that: who
// gives it such a slot all the same waits until it has loaded it again. s.mu is held.
func (s *Shards) shed(l *life) {
	if !s.Sheds || l.leaving || l.loading || l.ctx.Err() != nil || time.Since(s.chosen) < keepPause {
		return
	}
	needed := make(Set, (s.Slots+7)/8)
	for slot, winner := range s.winners {
		if winner == l.id || l.slots[slot] != nil || s.view.slots[slot].owner == l.id {
			needed[slot/8] |= 1 << (slot % 8)
		}
	}
	if bytes.Equal(needed, s.kept) {
		return
	}
	if loaded := l.loaded.And(needed); !bytes.Equal(loaded, l.loaded) {
		l.loaded = loaded
		l.tell()
	}
	l.loading = true
	l.moving.Go(func() {
		err := s.Host.Keep(l.ctx, needed)
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.loading = false; err == nil {
			s.kept = needed
		}
		s.look()
	})
}

package keytable

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/loops"
)

// loopsKept bounds how many keys have a Loop. Some write in each run, though nothing wakes them, and are idle then.
const loopsKept = 1024

// Watch gives a key a Loop, unless too many have one.
func (k *Table) Watch(key string) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watching >= loopsKept && now.Sub(k.tidied) >= time.Second {
		k.tidied = now
		for key, s := range k.byKey {
			if s.Loop != nil && s.Loop.Idle(now) {
				k.applyLocked(key, s, func(s *State) { s.Loop, s.Looping = nil, false })
			}
		}
	}
	if k.watching >= loopsKept {
		return
	}
	s := k.byKey[key]
	if s == nil {
		s = &State{}
	}
	k.applyLocked(key, s, func(s *State) { s.Loop = loops.NewTrail(now) })
}

// Rest forgets the failures and the Loop of a key that is not reconciled for now, as its record says.
func (k *Table) Rest(key string) {
	k.Amend(key, func(s *State) {
		s.Failures, s.Terminals, s.told, s.Loop, s.Looping = 0, 0, nil, nil, false
		s.Recorded()
	})
}

// Looping returns how many keys wake themselves.
func (k *Table) Looping() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.looping
}

// Watches reports whether any key has a Loop. It takes no lock.
func (k *Table) Watches() bool { return k.watched.Load() > 0 }

// Trail returns the Loop of a key; nil if it has none. It takes no lock while no key has one.
func (k *Table) Trail(key string) *loops.Trail {
	if !k.Watches() {
		return nil
	}
	return k.Of(key).Loop
}

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/shards"
)

// slots are those into which the keys are divided: in which of them work may start here, and how much is in hand. It
// implements that part of shards.Host.
type slots struct {
	many int

	mu      sync.Mutex
	opening map[int]gained
	open    []*lifecycle.Term       // by slot; nil: no work may start there
	busy    []int                   // keys in hand, by slot
	epochs  []uint64                // under which they were taken
	inHand  int                     // in all slots
	idle    map[int][]chan struct{} // who waits until nothing is in hand in a slot
	opens   chan struct{}           // has an element when there is something in opening
}

// gained is a slot that the member has, and in which no work may start before the caches show what its owner before has
// written.
type gained struct {
	ctx   context.Context
	epoch uint64
}

// allSlots is where slots.idle has who waits for all slots.
const allSlots = -1

func newSlots(many int) *slots {
	return &slots{
		many: many, opening: map[int]gained{}, idle: map[int][]chan struct{}{}, open: make([]*lifecycle.Term, many),
		busy: make([]int, many), epochs: make([]uint64, many), opens: make(chan struct{}, 1),
	}
}

func (s *slots) slotOf(key string) int { return shards.SlotOf(record.Plain(key), s.many) }

// Gained implements shards.Host.
func (s *slots) Gained(ctx context.Context, slot int, epoch uint64) {
	s.mu.Lock()
	s.opening[slot] = gained{ctx, epoch}
	s.mu.Unlock()
	notifyOf(s.opens)
}

// Drain implements shards.Host.
func (s *slots) Drain(slot int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opening, slot)
	s.open[slot] = nil
	return s.whenIdle(slot, s.busy[slot])
}

// Idle implements shards.Host.
func (s *slots) Idle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.opening)
	clear(s.open)
	return s.whenIdle(allSlots, s.inHand)
}

func (s *slots) whenIdle(slot, busy int) <-chan struct{} {
	idle := make(chan struct{})
	if busy == 0 {
		close(idle)
	} else {
		s.idle[slot] = append(s.idle[slot], idle)
	}
	return idle
}

// enter returns the term in which a worker may work at a key that it has taken; nil if it is not this member's. Then it
// must not be worked at. Else giveBack follows, when the key is done.
func (s *slots) enter(key string) *lifecycle.Term {
	slot := s.slotOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.open[slot]
	if t == nil || t.Over() {
		return nil
	}
	s.busy[slot]++
	s.inHand++
	return t
}

func (s *slots) giveBack(key string) {
	slot := s.slotOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[slot]--
	s.inHand--
	if s.busy[slot] == 0 {
		s.wake(slot)
		if _, waits := s.opening[slot]; waits {
			notifyOf(s.opens)
		}
	}
	if s.inHand == 0 {
		s.wake(allSlots)
	}
}

func (s *slots) wake(slot int) {
	for _, idle := range s.idle[slot] {
		close(idle)
	}
	delete(s.idle, slot)
}

// isOpen reports whether work may start at a key.
func (s *slots) isOpen(key string) bool { return s.isOpenSlot(s.slotOf(key)) }

func (s *slots) isOpenSlot(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.open[slot]
	return t != nil && !t.Over()
}

// countOpen counts the slots in which work may start.
func (s *slots) countOpen() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.open {
		if t != nil && !t.Over() {
			n++
		}
	}
	return n
}

// inUse reports whether work may start in a slot, or is to, or goes on.
func (s *slots) inUse(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, opens := s.opening[slot]
	return opens || s.busy[slot] > 0 || s.open[slot] != nil && !s.open[slot].Over()
}

// latestGained returns the highest revision at which a slot was gained that is to be opened; 0 if there is none.
func (s *slots) latestGained() (latest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, g := range s.opening {
		if g.ctx.Err() != nil {
			delete(s.opening, slot)
			continue
		}
		latest = max(latest, g.epoch)
	}
	return latest
}

// gainedUpTo are the slots that were gained at a revision or before and are to be opened, but for those in which
// something runs that began under another epoch.
func (s *slots) gainedUpTo(latest uint64) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	gained := map[int]bool{}
	for slot, g := range s.opening {
		if g.epoch <= latest && s.isFree(slot, g) {
			gained[slot] = true
		}
	}
	return gained
}

// isFree reports whether nothing runs in a slot that began under an epoch before. s.mu is held.
func (s *slots) isFree(slot int, g gained) bool {
	return s.busy[slot] == 0 || s.epochs[slot] == g.epoch
}

// openGained opens those of some slots that were gained at a revision or before, each with the term that termOf
// returns, and returns them. A slot in which something runs that began under another epoch waits until that has
// returned.
func (s *slots) openGained(
	of map[int]bool, latest uint64, termOf func(slot int, g gained) *lifecycle.Term,
) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := map[int]bool{}
	for slot, g := range s.opening {
		switch {
		case !of[slot] || g.epoch > latest || !s.isFree(slot, g):
			continue
		case g.ctx.Err() == nil:
			opened[slot] = true
			s.epochs[slot], s.open[slot] = g.epoch, termOf(slot, g)
		}
		delete(s.opening, slot)
	}
	return opened
}

// slotLease is the term of a slot: it is over when no work may start there.
type slotLease struct {
	*shards.Shards
	slot  int
	epoch uint64
}

// Over implements lifecycle.Lease.
func (l slotLease) Over() bool {
	epoch, ok := l.Owns(l.slot)
	return !ok || epoch != l.epoch
}

// OverAt implements lifecycle.Lease.
func (l slotLease) OverAt(time.Time) bool { return l.Over() }

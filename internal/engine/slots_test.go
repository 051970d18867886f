package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// opensAll opens what was gained.
func (s *slots) opensAll() map[int]bool {
	latest := s.latestGained()
	return s.openGained(s.gainedUpTo(latest), latest, func(_ int, g gained) *lifecycle.Term {
		return &lifecycle.Term{Ctx: g.ctx, RunCtx: g.ctx}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keyIn returns a key of a slot.
func (s *slots) keyIn(slot int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key-", i); s.slotOf(key) == slot {
			return key
		}
	}
}

// TestASlotIsDrainedWhenNothingOfItIsInHand, and may be opened again before.
func TestASlotIsDrainedWhenNothingOfItIsInHand(t *testing.T) {
	s := newSlots(4)
	one, other := s.keyIn(1), s.keyIn(2)
	if s.enter(one) != nil {
		t.Error("it works in a slot that it has not")
	}
	s.Gained(t.Context(), 1, 7)
	s.Gained(t.Context(), 2, 8)
	if s.enter(one) != nil || s.isOpen(one) {
		t.Error("it works in a slot that is not open")
	}
	s.opensAll()
	if s.enter(one) == nil || s.enter(other) == nil {
		t.Fatal("it does not work")
	}
	drained := s.Drain(1)
	if isClosed(drained) || s.enter(one) != nil || !s.isOpen(other) {
		t.Error("it is drained while a key is in hand, or more is taken, or another slot is closed")
	}
	s.Gained(t.Context(), 1, 7) // the hand-over came to nothing
	if opened := s.opensAll(); !opened[1] || s.enter(one) == nil {
		t.Error("it does not go on under the same epoch")
	}
	drained = s.Drain(1)
	s.giveBack(one)
	if isClosed(drained) {
		t.Error("it is drained while one of two is in hand")
	}
	s.giveBack(one)
	if !isClosed(drained) {
		t.Error("it is not drained")
	}
	idle := s.Idle()
	if isClosed(idle) || s.enter(other) != nil {
		t.Error("it is idle while a key is in hand, or takes more")
	}
	if s.giveBack(other); !isClosed(idle) {
		t.Error("it is not idle")
	}
}

// TestASlotThatComesBackIsOpenedWhenTheWorkOfTheEpochBeforeHasEnded.
func TestASlotThatComesBackIsOpenedWhenTheWorkOfTheEpochBeforeHasEnded(t *testing.T) {
	s := newSlots(4)
	one := s.keyIn(1)
	lost, end := context.WithCancel(t.Context())
	s.Gained(lost, 1, 7)
	s.opensAll()
	if s.enter(one) == nil {
		t.Fatal("it does not work")
	}
	end()
	s.Drain(1)
	s.Gained(t.Context(), 1, 9)
	<-s.opens
	if opened := s.opensAll(); len(opened) > 0 || s.enter(one) != nil {
		t.Error("two epochs work at once")
	}
	s.giveBack(one)
	if len(s.opens) == 0 {
		t.Error("nothing tells that it may be opened now")
	}
	if opened := s.opensAll(); !opened[1] {
		t.Error("it is not opened")
	}
	gone, end := context.WithCancel(t.Context())
	s.Gained(gone, 2, 10)
	end()
	if opened := s.opensAll(); len(opened) > 0 {
		t.Error("a slot is opened that was lost before")
	}
}

package shards

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// deaf has a host heed no context: each piece of its work takes as long as it takes.
func deaf(takes time.Duration) setting {
	return func(n *node, _ *Config) { n.host.takes, n.host.deaf = takes, true }
}

// reports has a member keep what it reports of moves, and of slots that rest; "" is nothing.
func (n *node) reports(c *Config) {
	keep := func(said *string) func(context.Context, error) {
		return func(_ context.Context, err error) {
			n.host.workMu.Lock()
			defer n.host.workMu.Unlock()
			if *said = ""; err != nil {
				*said = err.Error()
			}
		}
	}
	c.ReportMoves, c.ReportRest = keep(&n.host.moves), keep(&n.host.rest)
}

// reported is what it reports now.
func (n *node) reported() (moves, rest string) {
	n.host.workMu.Lock()
	defer n.host.workMu.Unlock()
	return n.host.moves, n.host.rest
}

// TestWorkThatIgnoresItsContextHoldsItsSlotUp: the owner tells so from a second after the end of its patience on, and
// until the work returns. Then the slot is handed over.
func TestWorkThatIgnoresItsContextHoldsItsSlotUp(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a", deaf(time.Minute), func(n *node, c *Config) { n.reports(c); c.DrainPatience = 5 * time.Second })
		w.held(first)
		worked := time.Now()
		time.Sleep(10 * time.Second)
		second := w.join("b")
		natstest.Eventually(t, "the owner drains", func() bool { _, draining := first.Held(); return draining > 0 })
		drains := time.Now()
		_, draining := first.Held()
		time.Sleep(5*time.Second + overduePause - 10*time.Millisecond)
		if moves, _ := first.reported(); moves != "" {
			t.Errorf("after %v it reports %q", time.Since(drains), moves)
		}
		time.Sleep(20 * time.Millisecond)
		for time.Since(worked) < time.Minute-time.Second {
			if moves, _ := first.reported(); !strings.Contains(moves, "slots are not handed over") {
				t.Fatalf("after %v it reports %q", time.Since(drains), moves)
			}
			if held, d := first.Held(); held != few || d != draining {
				t.Fatalf("after %v it has %d slots, and drains %d", time.Since(drains), held, d)
			}
			time.Sleep(time.Second)
		}
		w.held(first, second)
		if took := time.Since(worked); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("the hand-over ended %v after the work began", took)
		}
		if moves, _ := first.reported(); moves != "" {
			t.Errorf("it goes on to report %q", moves)
		}
	})
}

// TestADrainThatJustBeginsIsNotOverdue, because the one before, which came to nothing, was.
func TestADrainThatJustBeginsIsNotOverdue(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		first := w.join("a", deaf(30*time.Second), func(n *node, c *Config) { n.reports(c); c.DrainPatience = 5 * time.Second })
		w.held(first)
		second := w.join("b")
		natstest.Eventually(t, "the owner drains", func() bool { _, draining := first.Held(); return draining > 0 })
		time.Sleep(4500 * time.Millisecond)
		// The patience ends half a second later, and half a second after that the next owner is gone.
		time.AfterFunc(time.Second, second.leave)
		natstest.Eventually(t, "the owner goes on", func() bool { _, draining := first.Held(); return draining == 0 })
		time.Sleep(5 * time.Second)
		second = w.join("b")
		natstest.Eventually(t, "the owner drains", func() bool { _, draining := first.Held(); return draining > 0 })
		time.Sleep(time.Second)
		if moves, _ := first.reported(); moves != "" {
			t.Errorf("of a drain that began a second ago it reports %q", moves)
		}
		w.held(first, second)
	})
}

package faults

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// steps are all durable steps.
var steps = []step{
	claimed, installed, leaseTaken, streamKept, leaseRenewed, anchorWritten, secondaryWritten, statusWritten,
	outcomeWritten, cascaded, anchorGone, leaseGivenBack,
}

// faults are all faults.
var faults = []fault{crashBefore, crashAfter, lostAck, noRoom, exhausted, noRights, paused, pausedLong, vanished}

// TestOneFaultAtATime is a selection: each fault once, and each step but those of a start.
func TestOneFaultAtATime(t *testing.T) {
	for _, c := range []cell{
		cellOf(anchorWritten, crashBefore),
		cellOf(cascaded, crashAfter),
		cellOf(outcomeWritten, lostAck),
		cellOf(statusWritten, noRoom),
		cellOf(streamKept, exhausted),
		cellOf(anchorGone, noRights),
		cellOf(secondaryWritten, paused),
		cellOf(anchorWritten, pausedLong),
		cellOf(leaseRenewed, vanished),
	} {
		t.Run(c.String(), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) { newWorld(t, c).play() })
		})
	}
}

// cellOf is a fault at a step. It comes after a first round if what vanishes in the first may never have been there for
// others: they need not have seen the lease, and no anchor tells of it.
func cellOf(s step, f fault) cell {
	return cell{step: s, fault: f, later: (s == leaseTaken || s == leaseRenewed) && f == vanished}
}

// TestSoakOneFaultAtEachStep is each fault at each step.
func TestSoakOneFaultAtEachStep(t *testing.T) {
	for _, s := range steps {
		for _, f := range faults {
			c := cellOf(s, f)
			t.Run(c.String(), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) { newWorld(t, c).play() })
			})
		}
	}
}

// TestSoakAFaultThatLasts at each step, for longer than a standstill may go without a word.
func TestSoakAFaultThatLasts(t *testing.T) {
	for _, s := range steps {
		for _, f := range []fault{lostAck, noRoom, noRights} {
			c := cell{step: s, fault: f, lasts: silent + 4*time.Second}
			t.Run(c.String(), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) { newWorld(t, c).play() })
			})
		}
	}
}

// TestSoakTwoFaults has a second fault after each first one. By default each two steps in each order come once, with
// faults that differ, so that each two faults in each order come, too. NAGI_SOAK=n has n times as many; 81 are all.
func TestSoakTwoFaults(t *testing.T) {
	times := 1
	if s := os.Getenv("NAGI_SOAK"); s != "" {
		var err error
		times, err = strconv.Atoi(s)
		must(t, err)
	}
	pairs := len(faults) * len(faults)
	for n := range min(times, pairs) {
		for i := range len(steps) * len(steps) {
			pair := (i + n) % pairs
			first := cellOf(steps[i/len(steps)], faults[pair/len(faults)])
			second := cellOf(steps[i%len(steps)], faults[pair%len(faults)])
			t.Run(first.String()+", then "+second.String(), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) { newWorld(t, first, second).play() })
			})
		}
	}
}

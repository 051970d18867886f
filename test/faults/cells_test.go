package faults

import (
	"testing"
	"time"
)

// steps are all durable steps.
var steps = []step{
	claimed, installed, leaseTaken, streamKept, leaseRenewed, anchorWritten, secondaryWritten, statusWritten,
	outcomeWritten, cascaded, anchorGone, leaseGivenBack,
}

// faults are all faults.
var faults = []fault{crashBefore, crashAfter, lostAck, noRoom, exhausted, noRights, paused, pausedLong, vanished}

// TestOneFaultAtEachStep is a selection: each step and each fault at least once.
func TestOneFaultAtEachStep(t *testing.T) {
	for _, c := range []cell{
		{step: claimed, fault: lostAck},
		{step: installed, fault: crashAfter},
		{step: leaseTaken, fault: crashAfter},
		{step: leaseRenewed, fault: vanished},
		{step: streamKept, fault: exhausted},
		{step: anchorWritten, fault: crashBefore},
		{step: anchorWritten, fault: vanished},
		{step: secondaryWritten, fault: paused},
		{step: statusWritten, fault: noRoom},
		{step: outcomeWritten, fault: lostAck},
		{step: cascaded, fault: crashAfter},
		{step: cascaded, fault: paused},
		{step: anchorGone, fault: noRights},
		{step: leaseGivenBack, fault: crashBefore},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			newWorld(t, c).play()
		})
	}
}

// cells are each fault at each step.
func cells() (all []cell) {
	for _, s := range steps {
		for _, f := range faults {
			c := cell{step: s, fault: f}
			// What vanishes before anybody else saw it, or an anchor tells of it, was never there.
			c.later = f == vanished && (s == leaseTaken || s == installed)
			all = append(all, c)
		}
	}
	return all
}

// TestSoakOneFaultAtEachStep is each fault at each step.
func TestSoakOneFaultAtEachStep(t *testing.T) {
	for _, c := range cells() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			newWorld(t, c).play()
		})
	}
}

// TestSoakAFaultThatLasts at each step, for longer than a standstill may go without a word.
func TestSoakAFaultThatLasts(t *testing.T) {
	for _, s := range steps {
		for _, f := range []fault{lostAck, noRoom, noRights} {
			c := cell{step: s, fault: f, lasts: silent + 4*time.Second}
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				newWorld(t, c).play()
			})
		}
	}
}

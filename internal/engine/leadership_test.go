package engine

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/lease"
)

// TestNothingStartsInATermWhoseLeaseIsOver by the clock, even if the end has not reached the term's context yet.
func TestNothingStartsInATermWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if !(&term{ctx: ctx, stop: ctx, lease: new(lease.Term)}).over() { // a zero Term is over
		t.Error("it goes on")
	}
	if (&term{ctx: ctx, stop: ctx}).over() {
		t.Error("a term without a lease is over")
	}
}

package lifecycle

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/lease"
)

// TestNothingStartsInATermWhoseLeaseIsOver by the clock, even if the end has not reached the term's context yet.
func TestNothingStartsInATermWhoseLeaseIsOver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if !(&Term{Ctx: ctx, RunCtx: ctx, Lease: new(lease.Term)}).Over() { // a zero Term is over
		t.Error("it goes on")
	}
	if (&Term{Ctx: ctx, RunCtx: ctx}).Over() {
		t.Error("a term without a lease is over")
	}
}

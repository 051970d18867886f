package running

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

const (
	// ReasonStuck is the reason of the event about a reconcile that does not return.
	ReasonStuck = "ReconcileStuck"
	// ProblemEndOfTerm is the name under which a term is degraded that is over, and in which something goes on: until
	// it returns nothing is reconciled.
	ProblemEndOfTerm = "end of the term"
	// problemStuck is the name under which such reconciles are degraded.
	problemStuck = "stuck reconcile"
)

// Watch tells of the reconciles of a controller that do not return.
type Watch struct {
	Table *Table
	// After is how long one may run; 0: for ever.
	After   time.Duration
	Kind    string // of the primaries
	Workers int
	Board   *health.Board
	// Warn records a warning event about the primary of a key.
	Warn func(key, reason, message string)
}

// Run watches until ctx ends.
func (w Watch) Run(ctx context.Context) {
	if w.After <= 0 {
		return
	}
	w.Table.watch(ctx, w.After, func(n int, oldest Run) {
		if n == 0 {
			w.Board.Set(ctx, problemStuck, nil)
			return
		}
		err := fmt.Errorf("%d of %d workers are in reconciles that have not returned within %v, the oldest in that of "+
			"%s %s; the log has its stack. Give what it waits for a timeout; WithReconcileTimeout ends its context",
			n, w.Workers, w.After, w.Kind, printable.Quote(oldest.Key))
		w.Board.Set(ctx, problemStuck, &health.Problem{Since: oldest.Since, Err: err})
	}, func(stuck stuck) {
		klog.FromContext(ctx).Error(fmt.Errorf("not returned after %v; its goroutine: %s", w.After, stuck.stack),
			"Reconcile is stuck", "key", stuck.Key, "attempt", stuck.Attempt, "since", stuck.Since)
		w.Warn(stuck.Key, ReasonStuck, fmt.Sprintf(
			"the reconcile that began at %s, attempt %d, has not returned after %v; the controller's log has its stack",
			stuck.Since.UTC().Format(time.RFC3339), stuck.Attempt, w.After))
	})
}

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/running"
	"k8s.io/klog/v2"
)

const (
	// reasonStuck is the reason of the event about a reconcile that does not return.
	reasonStuck = "ReconcileStuck"
	// problemStuck is the name under which such reconciles are degraded.
	problemStuck = "stuck reconcile"
)

// Longest is the reconcile that has run for longest; zero if none runs.
func (e *Engine) Longest() running.Run { return e.running.Longest() }

// watchRunning tells of reconciles that do not return, until ctx ends.
func (e *Engine) watchRunning(ctx context.Context) {
	after := e.opts.StuckAfter
	if after <= 0 {
		return
	}
	e.running.Watch(ctx, after, func(n int, oldest running.Run) {
		if n == 0 {
			e.health.Set(ctx, problemStuck, nil)
			return
		}
		err := fmt.Errorf("%d of %d workers are in reconciles that have not returned within %v, the oldest in that of "+
			"%s %s; the log has its stack. Give what it waits for a timeout; WithReconcileTimeout ends its context",
			n, e.opts.Workers, after, e.Kind, foreign.Quote(oldest.Key))
		e.health.Set(ctx, problemStuck, &health.Problem{Since: oldest.Since, Err: err})
	}, func(stuck running.Stuck) {
		klog.FromContext(ctx).Error(fmt.Errorf("not returned after %v; its goroutine: %s", after, stuck.Stack),
			"Reconcile is stuck", "key", stuck.Key, "attempt", stuck.Attempt, "since", stuck.Since)
		e.event(e.regarding(stuck.Key, e.primary.View(stuck.Key)), eventWarning, reasonStuck, fmt.Sprintf(
			"the reconcile that began at %s, attempt %d, has not returned after %v; the controller's log has its stack",
			stuck.Since.UTC().Format(time.RFC3339), stuck.Attempt, after))
	})
}

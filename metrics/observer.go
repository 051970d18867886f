package metrics

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/controller"
)

// The results of a reconcile, as controller-runtime names them.
const (
	success = iota
	failure
	requeue
	requeueAfter
	results
)

var resultNames = [results]string{
	success: "success", failure: "error", requeue: "requeue", requeueAfter: "requeue_after",
}

// observed is what the observers of the controllers of one name have counted.
type observed struct {
	queued                      *durations
	took                        *durations
	results                     [results]atomic.Uint64
	terminals, panics, timeouts atomic.Uint64
}

// observer observes one controller. It allocates nothing.
type observer struct {
	metrics *Metrics
	*observed
}

var _ controller.Attacher = (*observer)(nil)

// Attach implements controller.Attacher.
func (o *observer) Attach(name string, stats func() controller.Stats) {
	o.observed = &o.metrics.attach(name, stats).observed
}

// Begin implements controller.Observer.
func (o *observer) Begin(ctx context.Context, b controller.Beginning) context.Context {
	o.queued.observe(b.Waited)
	return ctx
}

// End implements controller.Observer.
func (o *observer) End(ctx context.Context, e controller.Ending) {
	o.took.observe(e.Took)
	switch {
	case e.Waits, e.CutShort:
		o.results[requeue].Add(1)
	case e.Err != nil:
		o.results[failure].Add(1)
	case e.RequeueAfter > 0:
		o.results[requeueAfter].Add(1)
	default:
		o.results[success].Add(1)
	}
	if e.Err != nil {
		o.failed(e.Terminal, e.Panicked)
	}
	// As controller-runtime counts: whatever the reconciler returned when its time was over.
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), controller.ErrReconcileTimeout) {
		o.timeouts.Add(1)
	}
}

func (o *observer) failed(terminal, panicked bool) {
	if terminal {
		o.terminals.Add(1)
	}
	if panicked {
		o.panics.Add(1)
	}
}

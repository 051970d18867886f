package metrics

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/prometheus/client_golang/prometheus"
)

// histograms are those of all controllers.
type histograms struct{ reconcile, queued, worked *prometheus.HistogramVec }

func newHistograms() histograms {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return histograms{
		reconcile: histogram("controller_runtime_reconcile_time_seconds",
			"Length of time per reconciliation per controller", []float64{
				0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
				1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
			}, "controller"),
		queued: histogram("workqueue_queue_duration_seconds",
			"How long in seconds an item stays in workqueue before being requested",
			prometheus.ExponentialBuckets(10e-9, 10, 12), "name", "controller"),
		worked: histogram("workqueue_work_duration_seconds",
			"How long in seconds processing an item from workqueue takes.",
			prometheus.ExponentialBuckets(10e-9, 10, 12), "name", "controller"),
	}
}

func (h histograms) all() []prometheus.Collector {
	return []prometheus.Collector{h.reconcile, h.queued, h.worked}
}

func (h histograms) describe(out chan<- *prometheus.Desc) {
	for _, c := range h.all() {
		c.Describe(out)
	}
}

func (h histograms) collect(out chan<- prometheus.Metric) {
	for _, c := range h.all() {
		c.Collect(out)
	}
}

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
	reconcile, queued, worked   prometheus.Observer
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
	o.queued.Observe(max(0, b.Waited).Seconds())
	return ctx
}

// End implements controller.Observer.
func (o *observer) End(ctx context.Context, e controller.Ending) {
	took := e.Took.Seconds()
	o.reconcile.Observe(took)
	o.worked.Observe(took)
	switch {
	case e.Waits:
		o.results[requeue].Add(1)
	case e.Err != nil:
		o.results[failure].Add(1)
	case e.RequeueAfter > 0:
		o.results[requeueAfter].Add(1)
	default:
		o.results[success].Add(1)
	}
	if e.Terminal {
		o.terminals.Add(1)
	}
	if e.Panicked {
		o.panics.Add(1)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), controller.ErrReconcileTimeout) {
		o.timeouts.Add(1)
	}
}

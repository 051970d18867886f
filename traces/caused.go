package traces

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// uncausedPerSecond is the default of UncausedPerSecond. A processor that hands spans to an exporter in batches holds
// 2,048 by default, and a reconcile has a few: it writes.
const uncausedPerSecond = 100

// UncausedPerSecond is how many reconciles of a second may begin a trace though no traced write caused them, such as
// those of a start, of a resync, or of documents that are written without a trace. 0: none of them does; less: all of
// them do. Without this option it is 100, so that a controller with a million keys does not begin a million traces when
// it starts. The sampler decides about those that begin: where it takes few of them, say more here.
func UncausedPerSecond(n int) Option {
	return func(t *Tracer) {
		t.uncaused = nil
		if n >= 0 {
			t.uncaused = &perSecond{most: int64(n)}
		}
	}
}

// perSecond lets so many pass in each second. No caller waits for another, since all workers of a process ask it.
type perSecond struct {
	most   int64
	second atomic.Int64
	passed atomic.Int64
}

// clockSetBack is how many seconds a clock goes back when it is set.
const clockSetBack = 60

// passes reports whether one more may pass; a nil perSecond lets all pass.
func (p *perSecond) passes(now time.Time) bool {
	if p == nil {
		return true
	}
	// What comes late is of the second that is counted, unless the clock was set back.
	second, last := now.Unix(), p.second.Load()
	if (second > last || second < last-clockSetBack) && p.second.CompareAndSwap(last, second) {
		p.passed.Store(0)
	}
	return p.passed.Load() < p.most && p.passed.Add(1) <= p.most
}

// BeginRun implements controller.RunObserver. What a controller does is not in a span that is around its Run: that
// would be a trace without an end.
func (*Tracer) BeginRun(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).HasTraceID() {
		return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	return ctx
}

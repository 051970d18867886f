package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/klog/v2"
)

// Hand runs an engine by hand, one key at a time, for the tests that users write with package reconciletest: there are
// no workers, no lease, no sweep, and a brake that holds nothing.
type Hand struct{ engine *Engine }

// ByHand starts the sources and waits until they have synced; Run fails from then on. stop ends it, after an error too.
func (e *Engine) ByHand(ctx context.Context) (h Hand, stop func(), err error) {
	h = Hand{e}
	if !e.started.CompareAndSwap(false, true) {
		return h, func() {}, fmt.Errorf("controller %q: it runs, or has run", e.name)
	}
	if e.brake != nil {
		e.brake.Disarm()
	}
	ctx = h.logged(ctx)
	life, endLife := context.WithCancel(context.WithoutCancel(ctx))
	e.mappings.Start(life)
	stop = func() {
		e.queue.ShutDown()
		endLife()
		e.sourcesOver()
		e.mappings.Stop()
		e.missing.Wait()
		e.sources.Group().Stop()
		close(e.changes.down)
	}
	if err := e.startSources(ctx, life); err != nil {
		return h, stop, err
	}
	e.APIs.BeginTerm()
	e.sourcesReady(life)
	return h, stop, nil
}

func (h Hand) logged(ctx context.Context) context.Context {
	logger := printable.Logger(klog.FromContext(ctx)).WithValues("controller", h.engine.name, "kind", h.engine.Kind)
	return klog.NewContext(ctx, logger)
}

// HandOut brings a key one step further, as a worker does, and writes what came of it. last is how that ended.
func (h Hand) HandOut(ctx context.Context, key string, ops operation.Operations) (first, last lifecycle.Outcome) {
	e, ctx := h.engine, h.logged(ctx)
	t := &lifecycle.Term{Ctx: ctx, RunCtx: ctx, HandOut: ctx, Logger: klog.FromContext(ctx)}
	it := e.APIs.Take(queue.Item{Key: key, Ops: ops, Prio: queue.Live, Added: time.Now()})
	first, write := e.handle(t, it)
	for ; first.Verdict == lifecycle.LookAgain; first, write = e.handle(t, it) {
		if !pause(ctx, first.After) { // the caches do not show the key's own writes yet
			first = lifecycle.Outcome{Err: context.Cause(ctx)}
			return first, first
		}
	}
	if first.Verdict == lifecycle.GivenBack {
		first.Err = context.Cause(ctx)
	}
	e.settle(t, it, &first, nil)
	if write == nil {
		return first, first
	}
	last = write.Next(ctx, write.Answer(ctx))
	e.settle(t, it, &last, nil)
	return first, last
}

// AwaitDelete waits, until that context ends, for the news that a document is gone.
func (h Hand) AwaitDelete(ctx context.Context, key string) {
	e := h.engine
	for !e.primary.Exists(key) && e.keys.Of(key).Deleted == nil && pause(ctx, time.Millisecond) {
	}
}

// AwaitWrites waits until the caches show what the last reconcile of the key wrote.
func (h Hand) AwaitWrites(ctx context.Context, key string) {
	for shown, again := h.engine.keys.LookForWrites(ctx, key); !shown && again > 0 && pause(ctx, again); {
		shown, again = h.engine.keys.LookForWrites(ctx, key)
	}
}

// pause reports whether ctx has outlived the pause.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

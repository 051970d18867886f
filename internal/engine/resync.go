package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/resync"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// resync enqueues every primary once in each interval, spread over it.
func (e *Engine) resync(ctx context.Context) {
	due := func(key string) {
		if e.primary.Exists(key) {
			e.queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
	for interval := e.opts.ResyncInterval; interval > 0 && resync.Once(ctx, interval, e.primary.Keys(), due); {
	}
}

// collect runs the sweep, or what the Kumori API has instead, now and at the end of each interval.
func (e *Engine) collect(ctx context.Context) {
	if e.opts.ResyncInterval <= 0 {
		e.collectGarbage(ctx)
		return
	}
	wait.UntilWithContext(ctx, e.collectGarbage, e.opts.ResyncInterval)
}

func (e *Engine) collectGarbage(ctx context.Context) {
	e.remindOwed()
	if e.opts.Garbage == nil {
		e.sweep(ctx)
		return
	}
	e.opts.Garbage(ctx, func() { e.sweep(ctx) }, func() {
		if e.brake != nil {
			e.brake.Sweep(ctx, nil) // there is nothing for it to hold back: whoever overrides decides alone
		}
	})
}

// remindOwed enqueues the teardowns that were owed one sweep ago and still are: no event may tell of one, as where a
// record did not decode for a while. What the brake holds waits for its release.
func (e *Engine) remindOwed() {
	if e.records == nil {
		return
	}
	owed := map[string]struct{}{}
	for key, held := range e.records.All() {
		if !record.IsAnchor(held) || e.primary.Exists(key) || e.brake.Holds(key) {
			continue
		}
		owed[key] = struct{}{}
		if _, before := e.owedBefore[key]; before {
			e.queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
	e.owedBefore = owed
}

// remindPolicies enqueues the primaries whose deletion policy is not the one that their anchor has: predicates may have
// held back the event that says so.
func (e *Engine) remindPolicies() {
	for key, held := range e.records.All() {
		if !record.IsAnchor(held) {
			continue
		}
		v := e.primary.View(key)
		if v.Object != nil && source.DeletionPolicy(v.Object) != held.DeletionPolicy {
			e.queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
}

// sweep finds secondaries whose owner does not exist and enqueues the owners, as if they had been deleted just now: the
// worker asks the leader before anything goes. Nothing is asked of a server for a system that is healthy.
func (e *Engine) sweep(ctx context.Context) {
	if e.records == nil {
		return
	}
	defer e.stats.Sweeps.Add(1)
	found, ownerless := e.teardown.Sweep(ctx)
	for _, o := range found {
		if o.Count == 0 {
			continue // what is Unproved was reported
		}
		klog.FromContext(ctx).Info("Sweep found objects whose owners do not exist",
			"source", o.Source, "objects", o.Count, "of", o.Known, "owners", len(o.Owners),
			"dryRun", e.opts.SweepDryRun)
	}
	e.stats.Ownerless.Store(&ownerless)
	if e.opts.SweepDryRun {
		found = nil
	}
	for _, owner := range e.brake.Sweep(ctx, found) {
		e.queue.Add(owner, operation.Of(operation.Delete)|operation.ByHand, queue.Background)
	}
}

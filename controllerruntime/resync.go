package controllerruntime

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

// resyncSlots is into how many steps an interval is divided: keys whose turns fall into the same step come together.
const resyncSlots = 1000

// resync sweeps once, and from then on enqueues every primary once in each interval, spread over it, and sweeps again
// at its end.
func (e *engine) resync(ctx context.Context) {
	e.collectGarbage(ctx)
	interval := e.opts.resyncInterval
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	for e.resyncOnce(ctx, interval) {
		e.collectGarbage(ctx)
	}
}

func (e *engine) resyncOnce(ctx context.Context, interval time.Duration) bool {
	start := time.Now()
	step := max(interval/resyncSlots, time.Millisecond)
	turns := turnsOf(e.primary.Keys(), interval, step)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := 0; ; {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		elapsed := time.Since(start)
		for ; due < turns.steps() && time.Duration(due)*step <= elapsed; due++ {
			for _, key := range turns.of(due) {
				if e.primary.Exists(key) {
					e.queue.Add(key, operation.Of(OperationResync), queue.Background)
				}
			}
		}
		if elapsed >= interval {
			return true
		}
		for due < turns.steps() && len(turns.of(due)) == 0 {
			due++
		}
		next := interval
		if due < turns.steps() {
			next = time.Duration(due) * step
		}
		timer.Reset(min(next, interval) - elapsed)
	}
}

// turns are keys in the order of the steps in which they are due.
type turns struct {
	keys []string
	ends []int // of each step's keys, where the next one's begin
}

func (t turns) steps() int { return len(t.ends) }

func (t turns) of(step int) []string {
	from := 0
	if step > 0 {
		from = t.ends[step-1]
	}
	return t.keys[from:t.ends[step]]
}

// turnsOf takes as long as there are keys: it counts those of each step, and then puts each where it belongs.
func turnsOf(keys []string, interval, step time.Duration) turns {
	t := turns{keys: make([]string, len(keys)), ends: make([]int, interval/step+1)}
	stepOf := make([]int32, len(keys))
	for i, key := range keys {
		stepOf[i] = int32(turnOf(key, interval) / step)
		t.ends[stepOf[i]]++
	}
	begin := 0
	for step, count := range t.ends {
		t.ends[step] = begin
		begin += count
	}
	for i, key := range keys {
		end := &t.ends[stepOf[i]]
		t.keys[*end] = key
		*end++
	}
	return t
}

// turnOf is the same for a key in every interval and every process. FNV alone would give keys that differ in their last
// letters only ("site-1", "site-2") nearly the same turn, so its bits are mixed as MurmurHash3 ends.
func turnOf(key string, interval time.Duration) time.Duration {
	hash := fnv.New64a()
	hash.Write([]byte(key))
	bits := hash.Sum64()
	bits = (bits ^ bits>>33) * 0xff51afd7ed558ccd
	bits = (bits ^ bits>>33) * 0xc4ceb9fe1a85ec53
	bits ^= bits >> 33
	return time.Duration(float64(bits>>11) / (1 << 53) * float64(interval))
}

// collectGarbage runs the sweep, or what the Kumori API has instead.
func (e *engine) collectGarbage(ctx context.Context) {
	e.remindOwed()
	if e.opts.garbage == nil {
		e.sweep(ctx)
		return
	}
	swept := false
	e.callback(ctx, "GarbageSecondaries", func() {
		e.opts.garbage(func() {
			swept = true
			e.sweep(ctx)
		})
	})
	if !swept && e.brake != nil {
		e.brake.Sweep(ctx, nil) // there is nothing for it to hold back: whoever overrides decides alone
	}
}

// remindOwed enqueues the teardowns that were owed one sweep ago and still are: no event may tell of one, as where a record
// did not decode for a while. What the brake holds waits for its release.
func (e *engine) remindOwed() {
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
			e.queue.Add(key, operation.Of(OperationResync), queue.Background)
		}
	}
	e.owedBefore = owed
}

// remindPolicies enqueues the primaries whose deletion policy is not the one that their anchor has: predicates may have
// held back the event that says so.
func (e *engine) remindPolicies() {
	for key, held := range e.records.All() {
		if !record.IsAnchor(held) {
			continue
		}
		v := e.primary.View(key)
		if v.Object != nil && v.Object.GetAnnotations()[DeletionPolicyAnnotation] != held.DeletionPolicy {
			e.queue.Add(key, operation.Of(OperationResync), queue.Background)
		}
	}
}

// sweep finds secondaries whose owner does not exist and enqueues the owners, as if they had been deleted just now: the
// worker asks the leader before anything goes. Nothing is asked of a server for a system that is healthy.
func (e *engine) sweep(ctx context.Context) {
	if e.records == nil {
		return
	}
	e.stats.sweeps.Add(1)
	found := e.teardown.Sweep(ctx)
	count := 0
	for _, o := range found {
		klog.FromContext(ctx).Info("Sweep found objects whose owners do not exist", "source", o.Source, "objects", o.Count,
			"of", o.Known, "owners", len(o.Owners), "dryRun", e.opts.sweepDryRun)
		count += o.Count
	}
	e.stats.orphaned.Store(int64(count))
	if e.opts.sweepDryRun {
		found = nil
	}
	for _, owner := range e.brake.Sweep(ctx, found) {
		e.queue.Add(owner, operation.Of(OperationDelete)|operation.ByHand, queue.Background)
	}
}

package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/klog/v2"
)

// sweepPrimaries are what the cache knows of the primaries.
type sweepPrimaries interface {
	Keys() []string
	Exists(key string) bool
	View(key string) source.View
}

// sweeper makes the keys of a controller due whose turn has come, and sweeps.
type sweeper struct {
	Interval  time.Duration                                 // 0: one sweep, and no resync
	Soon      chan struct{}                                 // with room for one; see SweepSoon
	Later     chan struct{}                                 // the same; see SweepLater
	Orders    chan func(ctx context.Context)                // without room; see Order
	DryRun    bool                                          // only reports
	Shared    bool                                          // replicas share the keys, see Remind
	Garbage   func(ctx context.Context, sweep, skip func()) // instead of the sweep, if set; it calls one of them
	Primaries sweepPrimaries
	Queue     *queue.Queue
	Counts    *Counts

	Before   func(context.Context) // is called before each sweep
	Streams  func() uint64         // counts how often the stream of what is owned was replaced
	Records  brake.Records         // nil without teardown, as are the next
	Brake    *brake.Brake
	Teardown *lifecycle.Teardown

	owedBefore map[string]struct{} // see remindOwed
	reminded   time.Time           // when it was called last
	streams    uint64              // Streams before the last sweep
	more       bool                // the next sweep is for owners alone that the last did not ask about
}

// Resync enqueues every primary once in each interval, spread over it.
func (s *sweeper) Resync(ctx context.Context) {
	due := func(key string) {
		if s.Primaries.Exists(key) {
			s.Queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
	for s.Interval > 0 && resyncOnce(ctx, s.Interval, s.Primaries.Keys(), due) {
	}
}

// Collect runs the sweep, or what the Kumori API has instead, now, at the end of each interval, and when SweepSoon was
// called.
func (s *sweeper) Collect(ctx context.Context) {
	s.more = false
	if s.Teardown != nil {
		s.Teardown.BeginSweeps()
	}
	for ctx.Err() == nil {
		s.streams = s.Streams()
		s.collectGarbage(ctx)
		s.await(ctx)
	}
}

// sweepPause is how long after a release of the brake the next sweep comes. What was released is to be gone from the
// caches by then: a sweep that finds it again would engage the brake again. So long the leader rests, too, where there
// are more owners to ask it about than one sweep may.
const sweepPause = 10 * time.Second

// await returns at the end of the interval, a while after the last sweep if there is more to ask the leader about, a
// while after SweepLater was called, when SweepSoon was called, or when the stream of what is owned was replaced: a
// backup may have brought back what was torn down. Meanwhile it does what is ordered.
func (s *sweeper) await(ctx context.Context) {
	var end <-chan time.Time
	if s.Interval > 0 {
		timer := time.NewTimer(s.Interval)
		defer timer.Stop()
		end = timer.C
	}
	if s.more {
		end = time.After(sweepPause)
	}
	replaced := time.NewTicker(sweepPause)
	defer replaced.Stop()
	for {
		select {
		case <-replaced.C:
			if s.Interval > 0 && s.Streams() != s.streams {
				s.more = false
				return
			}
		case <-s.Later:
			s.more, end = false, time.After(sweepPause)
		case order := <-s.Orders:
			order(ctx)
		case <-end:
			return
		case <-s.Soon:
			s.more = false
			return
		case <-ctx.Done():
			return
		}
	}
}

// Order has something done between two sweeps, with a context that ends with the term, and waits for its end. The error
// is that of ctx, which ended before: nothing was done.
func (s *sweeper) Order(ctx context.Context, do func(ctx context.Context)) error {
	done := make(chan struct{})
	order := func(term context.Context) {
		defer close(done)
		do(term)
	}
	select {
	case s.Orders <- order:
		<-done
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SweepLater makes a sweep due after sweepPause, and none before that, unless SweepSoon is called.
func (s *sweeper) SweepLater() { notifyOf(s.Later) }

// SweepSoon makes a sweep due before the interval ends.
func (s *sweeper) SweepSoon() { notifyOf(s.Soon) }

// notifyOf has the reader of a channel with room for one know that something happened.
func notifyOf(of chan struct{}) {
	select {
	case of <- struct{}{}:
	default: // it is to know already
	}
}

func (s *sweeper) collectGarbage(ctx context.Context) {
	if !s.Shared && (!s.more || s.Interval > 0 && time.Since(s.reminded) >= s.Interval) {
		s.remindOwed()
	}
	s.more = false
	if s.Garbage == nil {
		s.sweep(ctx)
		return
	}
	s.Garbage(ctx, func() { s.sweep(ctx) }, func() {
		if s.Brake != nil {
			s.Brake.Sweep(ctx, nil) // there is nothing for it to hold back: whoever overrides decides alone
		}
	})
}

// Remind does in each interval what a member does for its own keys, where another one sweeps for all.
func (s *sweeper) Remind(ctx context.Context) {
	for s.Interval > 0 && pause(ctx, s.Interval) {
		s.remindOwed()
	}
}

// remindOwed enqueues the teardowns that were owed one sweep ago and still are: no event may tell of one, as where a
// record did not decode for a while. What the brake holds waits for its release. And it enqueues the keys that have a
// record without an anchor, and no document: nothing is owed, and no event tells of one whose document was deleted
// while no replica ran. The worker asks the leader, and removes the record, unless the brake is engaged.
func (s *sweeper) remindOwed() {
	s.reminded = time.Now()
	if s.Records == nil {
		return
	}
	owed, pause := map[string]struct{}{}, time.Duration(0)
	if s.owedBefore == nil {
		pause = sweepPause // by then the brake knows whether many have vanished
	}
	for key, held := range s.Records.All() {
		if s.Primaries.Exists(key) || s.Brake.Holds(key) {
			continue
		}
		if !record.IsAnchor(held) {
			s.Queue.AddAfter(key, operation.Of(operation.Resync), queue.Background, pause, queue.RetryDelay)
			continue
		}
		owed[key] = struct{}{}
		if _, before := s.owedBefore[key]; before {
			s.Queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
	s.owedBefore = owed
}

// RemindPolicies enqueues the primaries whose deletion policy is not the one that their anchor has: predicates may have
// held back the event that says so.
func (s *sweeper) RemindPolicies() {
	for key, held := range s.Records.All() {
		if !record.IsAnchor(held) {
			continue
		}
		v := s.Primaries.View(key)
		if v.Object != nil && source.DeletionPolicy(v.Object) != held.DeletionPolicy {
			s.Queue.Add(key, operation.Of(operation.Resync), queue.Background)
		}
	}
}

// sweep finds secondaries whose owner does not exist and enqueues the owners, as if they had been deleted just now: the
// worker asks the leader before anything goes. Nothing is asked of a server for a system that is healthy.
func (s *sweeper) sweep(ctx context.Context) {
	if s.Records == nil {
		return
	}
	defer s.Counts.Sweeps.Add(1)
	s.Before(ctx)
	found, ownerless := s.Teardown.Sweep(ctx)
	for _, o := range found {
		if o.Count == 0 {
			continue // what is Unproved was reported
		}
		klog.FromContext(ctx).Info("Sweep found objects whose owners do not exist",
			"source", o.Source, "objects", o.Count, "of", o.Known, "owners", len(o.Owners),
			"dryRun", s.DryRun)
	}
	s.Counts.Ownerless.Store(&ownerless)
	s.more = (ownerless.Unasked > 0 || ownerless.Unread) && (s.Interval == 0 || s.Interval > sweepPause)
	if s.DryRun {
		found = nil
	}
	for _, owner := range s.Brake.Sweep(ctx, found) {
		s.Queue.Add(owner, operation.Swept, queue.Background)
	}
	if !s.Brake.SweptAtOnce() {
		s.SweepLater()
	}
}

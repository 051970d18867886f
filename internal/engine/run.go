package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/klog/v2"
)

// stuckPatience is how long Run waits for reconciles and callbacks whose context was cancelled before it gives them up.
const stuckPatience = 10 * time.Second

// Run is a controller's life: claim, sync, lead while it may, and stop in the reverse order.
func (e *Engine) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return fmt.Errorf("controller %q: Run was called before; a controller runs once: make a new one", e.name)
	}
	defer e.ended.Store(true)
	logger := printable.Logger(klog.FromContext(ctx)).WithValues("controller", e.name, "kind", e.Kind)
	ctx = e.opts.Observers.BeginRun(ctx)
	ctx = e.callbacks.Into(klog.NewContext(ctx, logger))
	e.tellAftereffects(ctx)
	// life outlasts ctx: after a stop, what runs goes on with a live context, and the caches with it.
	life, endLife := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endLife(nil)
	var background sync.WaitGroup
	e.mappings.Start(life)
	telling, endTelling := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { e.health.Run(telling) })
	background.Go(func() { e.health.Watch(telling) })
	background.Go(func() { e.watchRights(telling) })

	began := time.Now()
	err := e.startSources(ctx, life)
	if err == nil {
		logger.Info("Caches synced", "sources", len(e.sources.Group()), "primaries", len(e.primary.Keys()),
			"took", time.Since(began).Round(time.Millisecond))
		e.synced.Store(true)
		e.sourcesReady(life)
		err = e.lead(ctx, life, endLife)
	}
	e.queue.ShutDown()
	e.plans.end(ErrStopped)
	endLife(ErrStopped) // a mapper that waits for something must not hold up the end
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // stopped during the sync
	}
	return errors.Join(err, e.stopSources(&background, endTelling))
}

// stopSources gives back the sources, unless a callback of the user never returns.
func (e *Engine) stopSources(background *sync.WaitGroup, endTelling func()) error {
	released := make(chan struct{})
	go func() {
		defer close(released)
		e.plans.making.Wait()
		e.sourcesOver()
		e.mappings.Stop()
		e.missing.Wait()
		e.sources.Group().Stop()
		close(e.changes.down)
		endTelling()
		background.Wait()
	}()
	patience := time.NewTimer(stuckPatience)
	defer patience.Stop()
	select {
	case <-released:
		return nil
	case <-patience.C:
		if hung := e.APIs.Hung(); hung != "" {
			return fmt.Errorf("controller %q: %s did not return within %v after its context was cancelled; "+
				"it and the sources were left behind: let the client heed its context", e.name, hung, stuckPatience)
		}
		return fmt.Errorf("controller %q: a mapper, a predicate, a plan or another callback did not return "+
			"within %v after its context was cancelled; it and the sources were left behind", e.name, stuckPatience)
	}
}

// startSources claims the status bucket, starts the sources and waits for all of them. Where the bucket does not know
// the installation, the sources in NATS and Kubernetes start first: what they hold may carry its id. Resources behind
// APIs are listed under it.
func (e *Engine) startSources(ctx, life context.Context) error {
	if err := e.changes.Take(ctx); err != nil { // one that is added just now comes with them
		return err
	}
	e.changes.Give()
	if e.claim == nil {
		return e.syncSources(ctx, life, e.sources.Group())
	}
	bounded, cancel := context.WithTimeoutCause(ctx, e.opts.CacheSyncTimeout, errSyncTimeout)
	defer cancel()
	if err := e.claim.Take(bounded); err != nil {
		return err
	}
	e.records.BelongTo(e.name)
	now, later := e.sources.Group(), source.Group(nil)
	if e.InstanceID() == "" {
		now, later = e.sources.Group().Without(isBehindAPI)
	}
	if err := e.syncSources(bounded, life, now); err != nil {
		return err
	}
	if err := e.claim.Settle(ctx, e.proven); err != nil {
		return err
	}
	return e.syncSources(ctx, life, later)
}

// seen are the objects that name an owner of our kind, by installation.
func (e *Engine) seen() record.Sightings { return record.SeenIn(e.owned(), owner.Claim{Kind: e.Kind}) }

// proven are those of them that prove it, where proofs are wanted.
func (e *Engine) proven() record.Sightings { return record.SeenIn(e.owned(), e.Claim()) }

func isBehindAPI(s source.Source) bool {
	_, ok := s.(*apisource.Source)
	return ok
}

// syncSources starts sources and waits, as long as is configured, until they have synced.
func (e *Engine) syncSources(ctx, life context.Context, sources source.Group) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.opts.CacheSyncTimeout, errSyncTimeout)
	defer cancel()
	if err := sources.Start(func(s source.Source) context.Context { return e.lifeOf(s, life) }); err != nil {
		return fmt.Errorf("controller %q: %w", e.name, err)
	}
	required, optional := sources.Without(source.IsOptional)
	if err := required.WaitSynced(ctx, life); err != nil {
		return fmt.Errorf("controller %q: %w", e.name, err)
	}
	for _, s := range optional.StillMissing(ctx, life) {
		e.without.Store(s, true)
		e.SourceHealth(life, s)
		e.missing.Go(func() { e.workWithout(life, s) })
	}
	return nil
}

var errSyncTimeout = errors.New("sources did not sync in time (see WithCacheSyncTimeout; " +
	"WithOptional is for those that the controller can do without)")

// lead works, until ctx ends, while this replica holds the lease.
func (e *Engine) lead(ctx, life context.Context, endLife context.CancelCauseFunc) error {
	endPolls := pollFor(ctx, e.queue.SetPoll)
	var triggers sync.WaitGroup
	if e.async != nil {
		e.async.Start(life)
	}
	triggered, endTriggers := context.WithCancel(ctx)
	defer endTriggers()
	triggers.Go(func() { e.watchSuspects(triggered) })
	for _, trigger := range e.opts.Triggers {
		triggers.Go(func() { e.reconcileAllOn(triggered, trigger) })
	}
	if e.records != nil {
		// From here on, with the primary's cache complete, what is not in it is gone. Without a lease there is no other
		// replica to wait for, and nothing that says what is owed.
		e.standBy()
	}
	election, endElection := context.WithCancel(life)
	elected := make(chan error, 1)
	go func() { elected <- e.electAndWork(election, life, ctx, &triggers) }()
	var err error
	var stuck error
	select {
	case <-ctx.Done():
	case err = <-elected:
		elected <- nil
	case stuck = <-e.stuck:
		endLife(stuck)
	}
	e.leadership.stopping.Store(true)
	e.queue.ShutDown()
	e.plans.end(ErrStopped)
	endTriggers()
	if e.async != nil {
		e.async.CloseSoon()
	}
	if stuck == nil {
		stuck = e.drain(ctx, endLife)
	}
	endElection()
	end := func() error {
		err := <-elected // it waits for what runs, so that the lease is not given back before
		triggers.Wait()
		if e.async != nil {
			e.async.Close()
		}
		return errors.Join(err, endPolls())
	}
	if stuck != nil {
		go end() // when they return, if they ever do
		return stuck
	}
	return errors.Join(err, end())
}

// drain gives the running reconciles their grace period with a live context, and then ends it.
func (e *Engine) drain(ctx context.Context, endLife context.CancelCauseFunc) error {
	grace, cancelGrace := lease.Grace(ctx, e.opts.GracePeriod)
	defer cancelGrace()
	if e.queue.WaitIdle(grace) == nil {
		return nil
	}
	endLife(ErrStopped)
	patience, cancel := context.WithTimeout(context.Background(), stuckPatience)
	defer cancel()
	if e.queue.WaitIdle(patience) == nil {
		return nil
	}
	if running := e.stats.Running.Load(); running > 0 {
		return fmt.Errorf("controller %q: %d reconciles did not return "+
			"within %v after their context was cancelled; they were left behind", e.name, running, stuckPatience)
	}
	return fmt.Errorf("controller %q: %d keys were left behind, %v after the end: "+
		"a callback did not return, or a write of a record is not answered",
		e.name, e.queue.Counts().InProgress, stuckPatience)
}

// reconcileAllOn enqueues every primary each time the trigger fires; a closed channel is dropped.
func (e *Engine) reconcileAllOn(ctx context.Context, trigger <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-trigger:
			if !open {
				return
			}
			e.EnqueueEverywhere(operation.Of(operation.Manual), "")
		}
	}
}

// EnqueueAll makes all primaries due, after all else, or those among some, and the teardowns that fail. It returns how
// many they are.
func (e *Engine) EnqueueAll(ops operation.Operations, among func(key string) bool) (n int) {
	for _, key := range e.primary.Keys() {
		if among == nil || among(key) {
			e.queue.Add(key, ops, queue.Background)
			n++
		}
	}
	for _, key := range e.keys.Where(func(s *keytable.State) bool { return s.Failures > 0 && s.Owed }) {
		if (among == nil || among(key)) && !e.primary.Exists(key) {
			e.resumeKey(key)
			n++
		}
	}
	return n
}

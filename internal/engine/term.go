package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/klog/v2"
)

const (
	// returnPatience is how long what runs may take to return when the lease was lost before that shows as degraded.
	returnPatience = time.Second
	// writePatience is more than a write of a record takes that gets no reply.
	writePatience = 20 * time.Second
)

// serve is one term: from the lease won until ctx ends, because it was lost or the controller has stopped. Once runCtx,
// which is Run's context, has ended no new reconcile starts.
func (e *Engine) serve(ctx, life, election, runCtx context.Context, won *lease.Term) {
	logger := klog.FromContext(life)
	reports := e.health.NewTerm()
	defer reports.End(life)
	ctx = reports.Of(ctx)
	termCtx, cancel := context.WithCancelCause(reports.Of(klog.NewContext(life, logger)))
	defer cancel(nil)
	if e.brake != nil {
		e.leadership.waitNoMore()
		defer e.standBy()
		if err := e.takeUp(klog.NewContext(ctx, logger), won); err != nil {
			logger.V(2).Info("Lease lost before the work began", "err", err)
			return
		}
	}
	if e.stats.Terms.Add(1) > 1 && e.sharing == nil || e.opts.WithoutLease {
		// What happened while another replica led, or none did, went by us.
		e.dueAtTermBegin()
	}
	defer e.aftereffects.flush()
	leads := logger
	if lease.IsHosted(life) {
		leads = logger.V(1) // the process has told that it leads
	}
	leads.Info("Leading", "term", e.stats.Terms.Load(), "workers", e.opts.Workers)
	var loops sync.WaitGroup
	e.besideWorkers(klog.NewContext(ctx, logger), &loops)
	if e.sharing == nil {
		e.beginKeys(termCtx)
	}
	handOut, endHandOut := context.WithCancel(termCtx)
	defer endHandOut()
	defer context.AfterFunc(runCtx, endHandOut)()
	t := &lifecycle.Term{
		Ctx: termCtx, RunCtx: runCtx, HandOut: handOut, Logger: logger, Began: time.Now(),
	}
	if won != nil {
		t.Lease = won
	}
	e.leadership.won.Store(won)
	e.leads(true)
	for range e.workersOfTerm() {
		loops.Go(func() { e.work(t) })
	}
	<-ctx.Done()
	e.leads(false)
	cancel(cmp.Or(context.Cause(life), ErrLeaseLost)) // ctx may end before termCtx notices that life has ended
	reports.End(life)
	// Nothing of this term may still run when the next one, here or elsewhere, begins.
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		e.endTerm(life, won)
		loops.Wait()
		e.stats.Ownerless.Store(nil)
	}()
	e.awaitReturn(life, election, returned)
}

// beginKeys is for a time in which this replica works at keys, until ctx ends.
func (e *Engine) beginKeys(ctx context.Context) {
	if e.async != nil {
		e.async.BeginTerm(ctx)
	}
	e.APIs.BeginTerm()
}

// endTerm waits for what workers do, and forgets what is for the next leader to find out.
func (e *Engine) endTerm(life context.Context, won *lease.Term) {
	var err error
	if e.sharing == nil {
		err = e.queue.WaitIdle(context.Background())
	}
	if err == nil && life.Err() == nil && e.brake != nil && !won.Over() { // else the next holder may have kept more
		e.brake.KeepProgress(life)
	}
	if e.sharing != nil {
		return // what is of keys belongs to the members
	}
	e.APIs.EndTerm()
	for _, s := range e.sources.Group() {
		if called, ok := s.(source.Called); ok {
			e.health.Leave(life, callsOf(s), called.Calls)
		}
	}
	if e.teardown != nil {
		e.teardown.ForgetDeleted()
	}
}

// workersOfTerm is how many workers a term has. Those of a member outlive it.
func (e *Engine) workersOfTerm() int {
	if e.sharing != nil {
		return 0
	}
	return e.opts.Workers
}

// takeUp prepares a term with records. The error says that the lease was lost meanwhile.
func (e *Engine) takeUp(ctx context.Context, won *lease.Term) error {
	if err := e.awaitRecords(ctx, won.Revision); err != nil {
		return err
	}
	if e.sharing == nil {
		e.forgetStale()
	}
	if err := e.brake.Start(ctx); err != nil {
		return err
	}
	e.renameFormer(ctx)
	if e.sharing != nil {
		return nil // what is of keys a member does as it opens their slots
	}
	e.sweeper.RemindPolicies()
	e.life.BeginTerm(func(string) bool { return true })
	return nil
}

// besideWorkers starts what runs beside the workers of a term until ctx ends.
func (e *Engine) besideWorkers(ctx context.Context, loops *sync.WaitGroup) {
	if e.brake != nil {
		loops.Go(func() { e.brake.Run(ctx) })
		loops.Go(func() { e.claim.Keep(ctx) })
	}
	for _, beside := range e.opts.Beside {
		loops.Go(func() { beside.Run(ctx) })
	}
	loops.Go(func() { e.sweeper.Collect(ctx) })
	if e.sharing == nil {
		loops.Go(func() { e.sweeper.Resync(ctx) })
		e.watchStuck(ctx, loops)
	}
}

// watchStuck tells of reconciles and callbacks that do not return, until ctx ends.
func (e *Engine) watchStuck(ctx context.Context, loops *sync.WaitGroup) {
	watch := running.Watch{
		Table: &e.running, After: e.opts.StuckAfter, Kind: e.Kind, Workers: e.opts.Workers,
		Board: e.health, Warn: e.warn,
	}
	loops.Go(func() { watch.Run(ctx) })
	loops.Go(func() { e.callbacks.Watch(ctx, e.opts.StuckAfter, e.health) })
}

// awaitReturn waits until all that ran in a term has returned. What does not shows as degraded, and ends Run after a
// while: this replica cannot apply for the lease again, so another process has to.
func (e *Engine) awaitReturn(life, election context.Context, returned <-chan struct{}) {
	const name = running.ProblemEndOfTerm
	defer e.health.Set(life, name, nil)
	look := time.NewTicker(returnPatience)
	defer look.Stop()
	for lost, told := time.Now(), false; ; {
		select {
		case <-returned:
			if told {
				<-election.Done() // Run ends, and no other term may begin
			}
			return
		case <-life.Done(): // drain has seen to it
			<-returned
			return
		case <-look.C:
		}
		reconciles, patience := e.stats.Running.Load() > 0, max(e.opts.GracePeriod, stuckPatience)
		if !reconciles {
			patience += writePatience
		}
		err := running.EndOfTerm(e.name, reconciles, e.queue.RunningKeys(10))
		if reconciles || election.Err() == nil { // else Run ends, and no other term is to begin
			e.health.Set(life, name, err)
		}
		if time.Since(lost) >= patience && !told && e.opts.GracePeriod >= 0 && life.Err() == nil {
			told = true
			e.stuck <- fmt.Errorf("%w; it was left behind after %v", err, patience)
		}
	}
}

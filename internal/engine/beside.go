package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/klog/v2"
)

// workBeside works without the lease, WithoutLease, until hold is called or the controller stops. hold lets what runs
// go on, with its context, which end ends: the queue has its keys. What is started is in works until it has returned.
func (e *Engine) workBeside(
	life, runCtx context.Context, works *sync.WaitGroup,
) (hold func(), end context.CancelCauseFunc) {
	if !e.opts.WithoutLease {
		return func() {}, func(error) {}
	}
	reports := e.health.NewTerm()
	logger := klog.FromContext(life)
	besideCtx, end := context.WithCancelCause(reports.Of(klog.NewContext(life, logger)))
	handOut, hold := context.WithCancel(besideCtx)
	stop := context.AfterFunc(runCtx, hold)
	t := &lifecycle.Term{
		Ctx: besideCtx, RunCtx: runCtx, HandOut: handOut, Beside: true, Logger: logger, Began: time.Now(),
	}
	var workers sync.WaitGroup
	for range e.opts.Workers {
		workers.Go(func() { e.work(t) })
	}
	e.watchStuck(handOut, works)
	works.Go(func() { e.sweeper.Resync(handOut) })
	works.Go(func() {
		workers.Wait()
		stop()
		end(nil)
		reports.End(life)
	})
	return hold, end
}

// electAndWork works while this replica holds the lease and, WithoutLease, also while it does not. What began before a
// term has to end with it, for the term waits for all.
func (e *Engine) electAndWork(election, life, runCtx context.Context, works *sync.WaitGroup) error {
	if e.sharing != nil {
		return e.sharing.share(election, life, runCtx)
	}
	hold, end := e.workBeside(life, runCtx, works)
	err := e.elect(election, func(term context.Context, won *lease.Term) {
		hold()
		began := end
		context.AfterFunc(term, func() { began(cmp.Or(context.Cause(life), ErrLeaseLost)) })
		e.serve(term, life, election, runCtx, won)
		hold, end = e.workBeside(life, runCtx, works)
	})
	hold()
	return err
}

// dueBeside makes a key due that this replica has reconciled and another one has torn down. leadership.mu is held.
func (e *Engine) dueBeside(key string) bool {
	if !e.opts.WithoutLease || !e.isGone(key) {
		return false
	}
	if state := e.keys.Of(key); !state.Met || !state.RecordWent {
		return false
	}
	e.queue.Add(key, operation.Of(operation.Delete), queue.Live)
	return true
}

// RecordWent is told of a record that was deleted. What this replica remembers of a teardown of its own is over.
func (e *Engine) RecordWent(key string, deleted any) {
	if !e.opts.WithoutLease || !e.keys.Of(key).Met || !natsinformer.DeleteOf(deleted).Evidenced {
		return
	}
	over := !e.primary.Exists(key) && !e.Leads() // a teardown of this term is its own
	e.keys.Amend(key, func(s *keytable.State) {
		if s.RecordWent = true; over {
			s.EndTeardown()
			s.Parked, s.Failures, s.Terminals = nil, 0, 0
		}
	})
}

// Anchored makes a key due that has waited for its anchor, which the replica that leads writes.
func (e *Engine) Anchored(key string) {
	state := e.keys.Of(key)
	if !state.AwaitsAnchor && !state.RecordWent || !record.IsAnchor(e.anchors.Cached(key)) {
		return
	}
	e.keys.Amend(key, func(s *keytable.State) { s.AwaitsAnchor, s.RecordWent = false, false })
	if state.AwaitsAnchor && e.primary.Exists(key) {
		e.Notice(key, operation.Of(operation.Put), queue.Live)
	}
}

// dueAtTermBegin is for a term that is not the first thing that a replica does. WithoutLease what was reconciled beside
// another leader has to be recorded.
func (e *Engine) dueAtTermBegin() {
	if !e.opts.WithoutLease {
		e.EnqueueAll(operation.Of(operation.Resync), nil)
		return
	}
	waits := func(key string) bool { return e.keys.Of(key).AwaitsAnchor }
	e.EnqueueAll(operation.Of(operation.Resync), func(key string) bool { return !waits(key) })
	e.EnqueueAll(operation.Of(operation.Put), func(key string) bool {
		if !waits(key) {
			return false
		}
		e.keys.Amend(key, func(s *keytable.State) { s.AwaitsAnchor = false }) // it writes the anchor itself
		return true
	})
}

// checkShared refuses a source behind an API WithoutLease: its calls are counted, spared and retried by one replica.
func (e *Engine) checkShared(s source.Source) error {
	if _, behind := s.(*apisource.Source); behind && e.opts.WithoutLease {
		return fmt.Errorf("%s is behind an API, whose rate and outages one replica keeps, and WithoutLease() lets all "+
			"replicas call it: take WithoutLease away, or give the source to a controller of its own", s)
	}
	return nil
}

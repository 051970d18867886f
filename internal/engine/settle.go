package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// settle acts on what a hand-out came to. It alone counts failures, parks keys, adds delays, reports attempts and
// gives keys back to the queue. With a write under way it acts a second time, on what the answer came to.
func (e *Engine) settle(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome, write *lifecycle.RecordWrite) {
	it.Prio = o.Attempt.PriorityAfter(it.Prio)
	switch o.Verdict {
	case lifecycle.GivenBack:
		e.settleGivenBack(it, o)
	case lifecycle.LookAgain:
		e.queue.GiveBackFor(queue.Item{Key: it.Key, Ops: o.Ops, Prio: o.Prio}, o.After)
	case lifecycle.Succeeded:
		e.settleSuccess(t, it, o)
	case lifecycle.Anchored:
		e.queue.GoAhead(it)
	case lifecycle.Waiting:
		kind, away := o.Attempt.Waits.Awaits()
		e.keys.NoteAwaits(it.Key, kind, away)
		o.Attempt.Waits.Wait(queue.Item{Key: it.Key, Ops: o.Ops, Prio: it.Prio, Added: it.Added}, o.Attempt.Err)
	case lifecycle.Failed:
		e.settleFailure(t, it, o)
	case lifecycle.Terminal:
		e.settleTerminal(it, o)
	case lifecycle.NotReconciled:
		e.APIs.ForgetTurn(it.Key)
		e.keys.Rest(it.Key)
	case lifecycle.DocumentReturned:
		e.settleDocumentReturned(it, o)
	case lifecycle.RecordFailed:
		e.settleRecordFailure(t, it, o)
	case lifecycle.StatusRefused:
		e.settleRefusal(t, it, o)
	case lifecycle.Recorded:
		e.keys.Amend(it.Key, (*keytable.State).Recorded)
	case lifecycle.Malformed:
		e.stats.Malformed.Add(1)
		e.reports.Log(t.Ctx, nil, "Malformed key in the queue, forgotten", it.Key)
		e.queue.CancelDelays(it.Key)
		e.keys.Forget(it.Key)
	}
	if o.Attempt.Number > 0 {
		e.report(t, it, &o.Attempt)
	}
	if o.Verdict == lifecycle.TornDown {
		e.stats.TornDown.Add(1)
		e.tellTornDown(t, it.Key)
	}
	if o.Verdict == lifecycle.TornDown || o.Verdict == lifecycle.NothingOwed {
		e.forgetLimited(t, it.Key)
		e.forget(it.Key) // after the report: the user's callback may still ask for the last known object
	}
	if write != nil {
		e.settleWhenAnswered(t, it, write)
		return
	}
	if o.Rests() {
		e.causes.Forget(it.Key)
	}
	e.done(it.Key)
	if !t.Beside && (o.Rests() || o.Verdict == lifecycle.Terminal) && e.keys.Of(it.Key).Owed && e.isGone(it.Key) {
		// The record went while the worker had the key, so its event left the key to the worker.
		e.Notice(it.Key, operation.Of(operation.Resync), queue.Secondary)
	}
}

// done gives back a key that a worker has taken.
func (e *Engine) done(key string) {
	if e.queue.Done(key); e.sharing != nil {
		e.sharing.giveBack(key)
	}
}

// settleWhenAnswered is apart from settle, which mostly has no write: what a function that outlives its caller refers
// to is allocated.
func (e *Engine) settleWhenAnswered(t *lifecycle.Term, it queue.Item, write *lifecycle.RecordWrite) {
	e.async.Submit(write.Answer, func(ctx context.Context, err error) {
		o := write.Next(ctx, err)
		e.settle(t, it, &o, nil)
	})
}

func (e *Engine) settleGivenBack(it queue.Item, o *lifecycle.Outcome) {
	e.queue.GiveBack(it)
	if o.Attempt.Number > 0 {
		e.APIs.Attempted(it.Key, false)
	}
}

func (e *Engine) settleSuccess(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome) {
	e.keys.Amend(it.Key, func(s *keytable.State) { s.Succeeded(o.Attempt.Pending != "") })
	e.forgetLimited(t, it.Key)
	e.APIs.Attempted(it.Key, true)
	if o.After > 0 {
		o.Attempt.NextDue = time.Now().Add(o.After)
		ops := operation.Union(o.Ops, operation.Of(operation.Requeue))
		e.queue.AddAfter(it.Key, ops, o.Attempt.PriorityAfter(queue.Background), o.After, queue.RequeueDelay)
	}
}

// settleFailure gives the operations back, so that the attempt which succeeds knows all its reasons.
func (e *Engine) settleFailure(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome) {
	failures := 0
	unanswered, degraded := e.unansweredBy(o.Attempt.Err), e.isDegraded()
	_, message := failureOf(o.Attempt.Err)
	e.keys.Change(it.Key, func(s *keytable.State) {
		s.Failures++
		failures = s.Failures
		o.Attempt.News = s.Told.Repeat(failures, message)
		s.Fails(lifecycle.WithoutOwners(message, o.Attempt.Err))
		if unanswered != nil {
			s.Unanswered = unanswered
		}
		s.Degraded = degraded
	})
	var delay time.Duration
	if o.Attempt.Number > 0 {
		delay = e.chosenDelay(t, &it, &o.Attempt)
	}
	if delay == 0 {
		delay = e.limitedDelay(t, it.Key, failures)
	}
	if o.Attempt.Number == 0 {
		e.tellTeardown(t, it.Key, o, failures, delay)
	}
	o.Attempt.NextDue = time.Now().Add(delay)
	e.retryAfter(it, o.Ops, delay)
	e.APIs.Attempted(it.Key, false)
}

// retryAfter keeps the priority of what made the key due: what a user has just changed does not wait behind a backlog
// because its first attempt failed.
func (e *Engine) retryAfter(it queue.Item, ops operation.Operations, delay time.Duration) {
	ops = operation.Union(ops, operation.Of(operation.Retry))
	e.queue.AddAfter(it.Key, ops, it.Prio, delay, queue.RetryDelay)
}

// chosenDelay is what the error says, or the user's error policy, which may choose the priority too; 0 if neither says
// anything.
func (e *Engine) chosenDelay(t *lifecycle.Term, it *queue.Item, a *lifecycle.Attempt) time.Duration {
	chosen, f := lifecycle.RetriedAfter(a.Err), e.opts.ErrorPolicy
	if chosen == 0 && f != nil {
		var requeue Requeue
		e.callback(t.Ctx, "WithErrorPolicy", func() { requeue = f(it.Key, a.Err, a.Number) })
		chosen = requeue.After
		if requeue.Priority != nil {
			it.Prio = *requeue.Priority
		}
	}
	if chosen > 0 {
		return max(chosen, loops.ShortestRequeue)
	}
	return 0
}

// limitedDelay is what the user's limiter says of a key that has failed so often in a row, or the backoff. The limiter
// counts by itself: a first failure of ours is its first, too.
func (e *Engine) limitedDelay(t *lifecycle.Term, key string, failures int) time.Duration {
	delay := e.backoff.Delay(failures)
	if l := e.opts.RateLimiter; l != nil {
		e.callback(t.Ctx, "WithRateLimiter", func() {
			if failures == 1 {
				l.Forget(key)
			}
			delay = max(l.When(key), loops.ShortestRequeue)
		})
	}
	return delay
}

// forgetLimited lets the user's limiter forget a key that does not fail any more.
func (e *Engine) forgetLimited(t *lifecycle.Term, key string) {
	if l := e.opts.RateLimiter; l != nil {
		e.callback(t.Ctx, "WithRateLimiter", func() { l.Forget(key) })
	}
}

func (e *Engine) settleTerminal(it queue.Item, o *lifecycle.Outcome) {
	parked := o.Parked
	parked.Since = time.Now()
	_, message := failureOf(o.Attempt.Err)
	e.keys.Change(it.Key, func(s *keytable.State) {
		s.Terminals++
		parked.RestsUntil = parked.Since.Add(e.backoff.Delay(s.Terminals))
		s.Parked, s.Failures = &parked, 0
		s.Fails(lifecycle.WithoutOwners(message, o.Attempt.Err))
	})
	o.Attempt.News = true
	e.eventAbout(o.Subject, EventWarning, entity.ReasonTerminal, message)
	e.APIs.Attempted(it.Key, false)
}

// settleDocumentReturned looks again soon: the event that says so may be here already, and this covers a cache that
// is behind.
func (e *Engine) settleDocumentReturned(it queue.Item, o *lifecycle.Outcome) {
	e.keys.Amend(it.Key, func(s *keytable.State) { s.Failures, s.Terminals, s.CleanUp, s.Owed = 0, 0, nil, false })
	e.forgetDeletedOf(it.Key)
	o.Attempt.NextDue = time.Now().Add(lifecycle.CheckInterval)
	e.queue.AddAfter(it.Key, operation.Of(operation.Put), queue.Live, lifecycle.CheckInterval, queue.RetryDelay)
	e.APIs.Attempted(it.Key, false)
}

// settleRecordFailure puts a key back whose record could not be written: there is no reconcile without it, and none
// is lost.
func (e *Engine) settleRecordFailure(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome) {
	failures, degraded := 0, e.isDegraded()
	e.keys.Change(it.Key, func(s *keytable.State) {
		if o.Unpark {
			s.Parked = nil
		}
		s.Degraded = degraded
		s.RecordFailures++
		s.Fails(printable.Message(o.Err.Error()), false)
		failures = s.RecordFailures
	})
	delay := e.backoff.Delay(failures)
	if !t.Over() {
		e.stats.RecordErrors.Add(1)
		const says = "Cannot write the record, so the key is not reconciled; will try again"
		about := []any{"key", it.Key, "bucket", e.statusBucket, "after", delay}
		if errors.Is(o.Err, record.ErrUnrecordable) { // which is the key's own affair
			tellRepeated(t, failures, o.Err, says, about...)
		} else { // of all keys, told once by the board
			e.recordsHealth.Failed(t.Ctx, o.Err)
			t.Logger.V(1).Info(says, append(about, "attempt", failures, "err", o.Err)...)
		}
	}
	e.queue.AddAfter(it.Key, o.Ops, it.Prio, delay, queue.RetryDelay)
}

// settleRefusal makes the key due again, unless the retry of an attempt that failed does.
func (e *Engine) settleRefusal(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome) {
	e.stats.RecordErrors.Add(1)
	if o.Ops == 0 {
		t.Logger.Error(o.Err, "Status not written", "key", it.Key)
		return
	}
	refusals := 0
	e.keys.Change(it.Key, func(s *keytable.State) {
		s.Parked = nil // or nothing would ever say that it is
		s.Refusals++
		s.Fails(printable.Message(o.Err.Error()), false)
		refusals = s.Refusals
	})
	delay := e.backoff.Delay(refusals)
	tellRepeated(t, refusals, o.Err, "Status not written, so the key is reconciled again",
		"key", it.Key, "after", delay)
	e.retryAfter(it, o.Ops, delay)
}

// forget forgets what this process remembers of a key that is gone. A delay that the user asked for stays.
func (e *Engine) forget(key string) {
	e.keys.Forget(key)
	e.causes.Forget(key)
	e.APIs.Forget(key)
	source.ForgetNames(e.sources.Group(), key)
}

// report counts an attempt, logs its failure and tells the user's callback.
func (e *Engine) report(t *lifecycle.Term, it queue.Item, a *lifecycle.Attempt) {
	e.stats.Reconciled(a)
	if a.Waits != nil {
		t.Logger.V(2).Info("Key waits for an API", "key", it.Key, "operations", a.Operations, "err", a.Err)
	} else if a.Err != nil {
		e.tellAttempt(t, it.Key, a)
	}
	if f := e.opts.OnResult; f != nil {
		e.callback(t.Ctx, "WithOnResult", func() {
			f(Report{
				Key: it.Key, Operations: a.Operations,
				Attempt: a.Number, Duration: a.Took, Err: a.Err, NextDue: a.NextDue, CutShort: a.CutShort,
			})
		})
	}
}

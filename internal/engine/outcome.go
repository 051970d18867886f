package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/teardown"
)

// verdict is what a hand-out of a key came to. See settle.
type verdict uint8

const (
	nothing       verdict = iota // nothing to do until something happens
	givenBack                    // it came to nothing: due again at once, for the same reasons
	lookAgain                    // due again after a while, for the reasons in ops; no failure
	succeeded                    // the attempt, or a step of the teardown; due again if after is set
	waiting                      // for an API, which makes it due again; no failure
	failed                       // the attempt, or a step of the teardown where no attempt was made
	terminal                     // parked until the primary changes
	rests                        // the primary exists and is not to be reconciled, or its delete is held back
	backAgain                    // the document exists again, so the teardown ended early
	nothingOwed                  // the primary is gone: everything is forgotten
	tornDown                     // gone, and what was owed is done
	recordFailed                 // its record could not be written
	statusRefused                // its record cannot take the status of the attempt
	recorded                     // its record was written, with what came of the attempt
	anchored                     // its anchor was written ahead: due again at once, before the backlog
	malformed                    // no primary can have such a key
)

// outcome says what a hand-out of a key came to. The zero value is nothing.
type outcome struct {
	verdict verdict
	attempt attempt              // reported if the reconciler was called
	err     error                // why it failed, where it was not the reconciler
	where   string               // of a failed step: for the log
	ops     operation.Operations // why it is due again
	prio    queue.Priority       // of lookAgain
	after   time.Duration        // of lookAgain and succeeded
	parked  keytable.Parked      // of terminal
	unpark  bool                 // of recordFailed: the record would have said that the key is parked
	subject any                  // of terminal: the object of the event; nil: no event
	write   *recordWrite         // under way: the key is not done before it is answered
}

// recordWrite is a write of the key's record that is under way. next makes of its answer what the hand-out comes to; without
// an answer to wait for it is called at once.
type recordWrite struct {
	answer func(context.Context) error
	next   func(ctx context.Context, err error) outcome
}

// settle acts on what a hand-out came to. It alone counts failures, parks keys, adds delays, reports attempts and gives keys
// back to the queue.
func (e *Engine) settle(t *term, it queue.Item, o *outcome) {
	switch o.verdict {
	case givenBack:
		e.queue.GiveBack(it)
	case lookAgain:
		e.queue.AddAfter(it.Key, o.ops, o.prio, o.after, queue.RetryDelay)
	case succeeded:
		e.settleSuccess(it, o)
	case anchored:
		e.queue.AddAfter(it.Key, it.Ops, queue.Secondary, 0, queue.RetryDelay)
	case waiting:
		o.attempt.waits.Wait(queue.Item{Key: it.Key, Ops: o.ops, Prio: it.Prio, Added: it.Added}, o.attempt.err)
	case failed:
		e.settleFailure(t, it, o)
	case terminal:
		e.settleTerminal(it, o)
	case rests:
		e.APIs.ForgetTurn(it.Key)
		e.keys.ResetFailures(it.Key)
	case backAgain:
		e.settleBackAgain(it, o)
	case nothingOwed, tornDown:
		e.forget(it.Key)
	case recordFailed:
		e.settleRecordFailure(t, it, o)
	case statusRefused:
		e.settleRefusal(t, it, o)
	case recorded:
		e.keys.Amend(it.Key, func(s *keytable.State) { s.RecordFailures, s.Refusals = 0, 0 })
	case malformed:
		e.stats.Malformed.Add(1)
		t.logger.Error(nil, "Malformed key in the queue, forgotten", "key", it.Key, "operations", it.Ops)
		e.queue.CancelDelays(it.Key)
		e.keys.Forget(it.Key)
	}
	if o.attempt.number > 0 {
		e.report(t, it, &o.attempt)
	}
	if o.verdict == tornDown {
		e.stats.TornDown.Add(1)
	}
	if o.write == nil {
		e.queue.Done(it.Key)
		return
	}
	if o.write.answer == nil {
		next := o.write.next(t.ctx, nil)
		e.settle(t, it, &next)
		return
	}
	e.settleWhenAnswered(t, it, o.write)
}

// settleWhenAnswered is apart from settle, which mostly has no write: what a function that outlives its caller refers to is
// allocated.
func (e *Engine) settleWhenAnswered(t *term, it queue.Item, write *recordWrite) {
	e.async.Submit(write.answer, func(ctx context.Context, err error) {
		next := write.next(ctx, err)
		e.settle(t, it, &next)
	})
}

func (e *Engine) settleSuccess(it queue.Item, o *outcome) {
	e.keys.Amend(it.Key, func(s *keytable.State) {
		s.Unanswered, s.Parked = nil, nil
		if o.attempt.pending == "" {
			s.Failures = 0 // what goes on behind an API may fail yet, and the next try then comes later
		}
	})
	e.APIs.Attempted(it.Key, true)
	if o.after > 0 {
		o.attempt.nextDue = time.Now().Add(o.after)
		e.queue.AddAfter(it.Key, operation.Union(o.ops, operation.Of(operation.Requeue)), queue.Background, o.after, queue.RequeueDelay)
	}
}

// settleFailure gives the operations back, so that the attempt which succeeds knows all its reasons.
func (e *Engine) settleFailure(t *term, it queue.Item, o *outcome) {
	failures := 0
	unanswered := e.unansweredBy(o.attempt.err)
	e.keys.Change(it.Key, func(s *keytable.State) {
		s.Failures++
		failures = s.Failures
		if unanswered != nil {
			s.Unanswered = unanswered
		}
	})
	delay := e.backoff.Delay(failures)
	if o.attempt.number > 0 {
		delay = e.chosenDelay(t, it, &o.attempt, delay)
	} else if t.ctx.Err() == nil {
		t.logger.Error(o.attempt.err, "Teardown does not go on, will try again", "key", it.Key, "noticed", o.where, "after", delay)
	}
	o.attempt.nextDue = time.Now().Add(delay)
	e.queue.AddAfter(it.Key, operation.Union(o.ops, operation.Of(operation.Retry)), queue.Background, delay, queue.RetryDelay)
	e.APIs.Attempted(it.Key, false)
}

// chosenDelay asks the user's error policy.
func (e *Engine) chosenDelay(t *term, it queue.Item, a *attempt, delay time.Duration) time.Duration {
	f := e.opts.ErrorPolicy
	if f == nil {
		return delay
	}
	var chosen time.Duration
	e.callback(t.ctx, "WithErrorPolicy", func() { chosen = f(it.Key, a.err, a.number) })
	if chosen > 0 {
		return chosen
	}
	return delay
}

func (e *Engine) settleTerminal(it queue.Item, o *outcome) {
	parked := o.parked
	e.keys.Change(it.Key, func(s *keytable.State) { s.Parked, s.Failures = &parked, 0 })
	e.event(o.subject, eventWarning, entity.ReasonTerminal, o.attempt.err.Error())
	e.APIs.Attempted(it.Key, false)
}

// settleBackAgain looks again soon: the event that says so may be here already, and this covers a cache that is behind.
func (e *Engine) settleBackAgain(it queue.Item, o *outcome) {
	e.keys.Amend(it.Key, func(s *keytable.State) { s.Failures, s.CleanUp = 0, nil })
	o.attempt.nextDue = time.Now().Add(teardown.CheckInterval)
	e.queue.AddAfter(it.Key, operation.Of(operation.Put), queue.Live, teardown.CheckInterval, queue.RetryDelay)
	e.APIs.Attempted(it.Key, false)
}

// settleRecordFailure puts a key back whose record could not be written: there is no reconcile without it, and none is lost.
func (e *Engine) settleRecordFailure(t *term, it queue.Item, o *outcome) {
	failures := 0
	e.keys.Change(it.Key, func(s *keytable.State) {
		if o.unpark {
			s.Parked = nil
		}
		s.RecordFailures++
		failures = s.RecordFailures
	})
	delay := e.backoff.Delay(failures)
	if !t.over() {
		e.stats.RecordErrors.Add(1)
		e.recordsHealth.Failed(t.ctx, o.err)
		t.logger.Error(o.err, "Cannot write the record, so the key is not reconciled; will try again",
			"key", it.Key, "bucket", e.statusBucket, "after", delay)
	}
	e.queue.AddAfter(it.Key, o.ops, queue.Background, delay, queue.RetryDelay)
}

// settleRefusal makes the key due again, unless the retry of an attempt that failed does.
func (e *Engine) settleRefusal(t *term, it queue.Item, o *outcome) {
	e.stats.RecordErrors.Add(1)
	if o.ops == 0 {
		t.logger.Error(o.err, "Status not written", "key", it.Key)
		return
	}
	refusals := 0
	e.keys.Change(it.Key, func(s *keytable.State) {
		s.Parked = nil // or nothing would ever say that it is
		s.Refusals++
		refusals = s.Refusals
	})
	delay := e.backoff.Delay(refusals)
	t.logger.Error(o.err, "Status not written, so the key is reconciled again", "key", it.Key, "after", delay)
	e.queue.AddAfter(it.Key, operation.Union(o.ops, operation.Of(operation.Retry)), queue.Background, delay, queue.RetryDelay)
}

// forget forgets what this process remembers of a key that is gone. A delay that the user asked for stays.
func (e *Engine) forget(key string) {
	e.keys.Forget(key)
	e.APIs.Forget(key)
	e.forgetNames(key)
}

// report counts an attempt, logs its failure and tells the user's callback.
func (e *Engine) report(t *term, it queue.Item, a *attempt) {
	e.stats.reconciled(a)
	if a.waits != nil {
		t.logger.V(2).Info("Key waits for an API", "key", it.Key, "operations", it.Ops.Public(), "err", a.err)
	} else if a.err != nil && t.ctx.Err() == nil {
		t.logger.Error(a.err, "Reconcile failed", "key", it.Key, "operations", it.Ops.Public(), "attempt", a.number, "nextDue", a.nextDue)
	}
	if f := e.opts.OnResult; f != nil {
		e.callback(t.ctx, "WithOnResult", func() {
			f(Report{Key: it.Key, Operations: it.Ops.Public(), Attempt: a.number, Duration: a.took, Err: a.err, NextDue: a.nextDue})
		})
	}
}

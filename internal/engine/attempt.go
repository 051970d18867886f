package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
)

// call calls the reconciler. It does not, and says instead what the hand-out came to, if the term is over or the
// caches do not show the key's own writes yet. recordsOutcome says that what comes of the attempt is recorded.
func (e *Engine) call(
	t *lifecycle.Term, it queue.Item, recordsOutcome bool,
) (a lifecycle.Attempt, instead *lifecycle.Outcome) {
	if pause := e.ownWritesMissing(t, it.Key); pause > 0 {
		return a, lookAgain(it, pause)
	}
	start := time.Now()
	if t.OverAt(start) {
		return a, &lifecycle.Outcome{Verdict: lifecycle.GivenBack}
	}
	state := e.keys.Of(it.Key)
	if state.Loop != nil {
		if pause := e.beginWatched(t, it, state.Loop, start); pause > 0 {
			return a, lookAgain(it, pause)
		}
	}
	source.ForgetNames(e.sources.Group(), it.Key)
	operations := it.Ops.Public()
	own := e.newContext(t, it.Key, operations)
	own.Recorded = recordsOutcome
	if state.Loop != nil {
		own.Writes.Follower = state.Loop
	}
	ctx, cancel := context.Context(own), func() {}
	if e.opts.ReconcileTimeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, e.opts.ReconcileTimeout, ErrReconcileTimeout)
	}
	a.Number, a.Operations = state.Failures+1, operations
	run := e.running.Begin(it.Key, start, a.Number)
	e.stats.Running.Add(1)
	var observed ObservedAttempt
	caused := e.causes.Take(it.Key)
	if len(e.opts.Observers) > 0 {
		before := ctx
		ctx = e.opts.Observers.Begin(before, &observed, Beginning{
			Controller: e.name, Kind: e.Kind, Key: it.Key, Operations: operations, Attempt: a.Number, At: start,
			Waited: t.Waited(it.Added, start), Causes: caused.Causes, MoreCauses: caused.More,
		})
		a.Under = Aftermath(t.Ctx, before, ctx)
	}
	requeue, err := e.callReconciler(ctx, t, it.Key, operations)
	a.Requeue, a.Priority, a.Err = requeue.After, requeue.Priority, err
	a.Took = time.Since(start)
	e.stats.Running.Add(-1)
	e.conclude(t, it.Key, state.Loop, own, &a)
	e.causes.Settle(it.Key, caused, a.Unfinished())
	if len(e.opts.Observers) > 0 {
		_, panicked := a.Err.(*guard.Panic)
		observed.End(&Ending{
			Key: it.Key, Operations: operations, Attempt: a.Number, Took: a.Took, Err: a.Err, Panicked: panicked,
			Terminal: a.Err != nil && a.Waits == nil && lifecycle.IsTerminal(a.Err),
			Waits:    a.Waits != nil, CutShort: a.CutShort, RequeueAfter: a.Requeue,
		})
	}
	e.running.Keep(run, a.Took) // an observer that does not return is a reconcile that is stuck
	cancel()
	return a, nil
}

// callReconciler calls the reconciler. Beside a leader nothing is pruned.
func (e *Engine) callReconciler(
	ctx context.Context, t *lifecycle.Term, key string, ops operation.Operations,
) (r Requeue, err error) {
	e.queue.Spend(key)
	reconcile := e.reconcile
	if t.Beside {
		reconcile = e.unpruned
	}
	err = guard.Call(func() (err error) {
		r, err = reconcile(ctx, key, ops)
		return err
	})
	return r, err
}

// conclude says what came of the call of the reconciler.
func (e *Engine) conclude(
	t *lifecycle.Term, key string, trail *loops.Trail, own *reconcilectx.Context, a *lifecycle.Attempt,
) {
	if a.Err != nil && t.Ctx.Err() != nil && lifecycle.IsTerminal(a.Err) {
		a.Err = lifecycle.TooLate(a.Err, context.Cause(t.Ctx))
	}
	a.CutShort = lifecycle.CutShort(t, a.Err)
	a.Err = e.orOwnGone(key, a.Operations, a.Err)
	a.Wrote, a.Status = !own.Writes.Empty(), own.TakeStatus()
	a.Waits = lifecycle.WaiterFor(e.APIs, key, a.Err)
	e.noteRun(key, trail, a)
	if after, what := own.Pending(); what != "" && a.Err == nil {
		a.Pending = what
		if a.Requeue <= 0 || after < a.Requeue {
			a.Requeue = after
		}
	}
	e.keys.KeepWrites(key, &own.Writes)
}

// ownWritesMissing tells after which pause to look again for what the key's last reconcile wrote; 0 if it need not
// wait for it.
func (e *Engine) ownWritesMissing(t *lifecycle.Term, key string) time.Duration {
	shown, again := e.keys.LookForWrites(t.Ctx, key)
	if !shown && again == 0 && t.Ctx.Err() == nil {
		t.Logger.Info("Caches do not show the key's last writes yet, reconciling on what there is",
			"key", key, "after", keytable.OwnWritesPatience)
	}
	if again > 0 {
		e.stats.OwnWriteWaits.Add(1)
	}
	return again
}

package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Call calls the reconciler. It does not, and says instead what the hand-out came to, if the term is over or the
// caches do not show the key's own writes yet. recordsOutcome says that the caller records what comes of the attempt.
func (e *Engine) Call(
	t *lifecycle.Term, it queue.Item, recordsOutcome bool,
) (a lifecycle.Attempt, instead *lifecycle.Outcome) {
	if pause := e.ownWritesMissing(t, it.Key); pause > 0 {
		return a, &lifecycle.Outcome{Verdict: lifecycle.LookAgain, Ops: it.Ops, Prio: it.Prio, After: pause}
	}
	start := time.Now()
	if t.OverAt(start) {
		return a, &lifecycle.Outcome{Verdict: lifecycle.GivenBack}
	}
	state := e.keys.Of(it.Key)
	if state.Loop != nil {
		if pause := e.beginWatched(t, it, state.Loop, start); pause > 0 {
			return a, &lifecycle.Outcome{Verdict: lifecycle.LookAgain, Ops: it.Ops, Prio: it.Prio, After: pause}
		}
	}
	source.ForgetNames(e.sources, it.Key)
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
	own.Run = running.Run{Key: it.Key, Since: start, Attempt: a.Number}
	e.running.Begin(&own.Run)
	e.stats.Running.Add(1)
	a.Err = guard.Call(func() (err error) {
		a.Requeue, err = e.reconcile(ctx, it.Key, operations)
		return err
	})
	a.Took = time.Since(start)
	e.stats.Running.Add(-1)
	e.running.Keep(&own.Run, a.Took)
	cancel()
	if a.Err != nil && t.Ctx.Err() != nil && lifecycle.IsTerminal(a.Err) {
		// It says nothing about the primary, so it must not park the key: nobody would record that it is.
		a.Err = fmt.Errorf("%v, after the term had ended: %w", a.Err, context.Cause(t.Ctx))
	}
	a.Wrote, a.Status = !own.Writes.Empty(), own.TakeStatus()
	a.Waits = e.WaiterFor(it.Key, a.Err)
	e.noteRun(it.Key, state.Loop, &a)
	if after, what := own.Pending(); what != "" && a.Err == nil {
		a.Pending = what
		if a.Requeue <= 0 || after < a.Requeue {
			a.Requeue = after
		}
	}
	e.keys.KeepWrites(it.Key, &own.Writes)
	return a, nil
}

// ownWritesMissing tells after which pause to look again for what the key's last reconcile wrote; 0 if it need not
// wait for it.
func (e *Engine) ownWritesMissing(t *lifecycle.Term, key string) time.Duration {
	shown, again := e.keys.LookForWrites(t.Ctx, key)
	if !shown && again == 0 && t.Ctx.Err() == nil {
		t.Logger.Info("Caches do not show the key's last writes yet, reconciling on what there is",
			"key", key, "after", keytable.OwnWritesPatience)
	}
	return again
}

// reconcileID is formatted only when something is logged.
type reconcileID uint64

func (id reconcileID) String() string { return strconv.FormatUint(uint64(id), 16) }

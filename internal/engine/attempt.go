package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// attempt is one call of the reconciler and what came of it.
type attempt struct {
	number  int           // counts from 1; 0: the reconciler was not called
	requeue time.Duration // due again after it, if positive
	err     error
	took    time.Duration
	nextDue time.Time
	wrote   bool                 // through our clients or handles
	pending string               // what external.Reconcile waits for; the key is not reconciled yet
	status  *entity.StatusChange // nil if none was set
	waits   apisource.Waiter     // the error is no failure: the key has to wait for an API
}

// call calls the reconciler if the caches show what the key's last reconcile wrote, or have been waited for. Else, or if the
// term is over, it does not start, and instead says what the hand-out came to. recordsOutcome says that the caller records
// what comes of the attempt.
func (e *Engine) call(t *term, it queue.Item, recordsOutcome bool) (a attempt, instead *outcome) {
	if pause := e.ownWritesMissing(t, it.Key); pause > 0 {
		return attempt{}, &outcome{verdict: lookAgain, ops: it.Ops, prio: it.Prio, after: pause}
	}
	if t.over() {
		return attempt{}, &outcome{verdict: givenBack}
	}
	e.forgetNames(it.Key)
	operations := it.Ops.Public()
	own := e.newContext(t, it.Key, operations)
	own.Recorded = recordsOutcome
	ctx, cancel := context.Context(own), func() {}
	if e.opts.ReconcileTimeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, e.opts.ReconcileTimeout, ErrReconcileTimeout)
	}
	a.number = e.keys.Of(it.Key).Failures + 1
	e.stats.Running.Add(1)
	start := time.Now()
	a.err = guard.Call(func() (err error) {
		a.requeue, err = e.reconcile(ctx, it.Key, operations)
		return err
	})
	a.took = time.Since(start)
	e.stats.Running.Add(-1)
	cancel()
	a.wrote, a.status = !own.Writes.Empty(), own.TakeStatus()
	a.waits = e.waiterFor(it.Key, a.err)
	if after, what := own.Pending(); what != "" && a.err == nil {
		a.pending = what
		if a.requeue <= 0 || after < a.requeue {
			a.requeue = after
		}
	}
	e.keys.KeepWrites(it.Key, &own.Writes)
	return a, nil
}

// ownWritesMissing tells after which pause to look again for what the key's last reconcile wrote; 0 if it need not wait for it.
func (e *Engine) ownWritesMissing(t *term, key string) time.Duration {
	shown, again := e.keys.LookForWrites(t.ctx, key)
	if !shown && again == 0 && t.ctx.Err() == nil {
		t.logger.Info("Caches do not show the key's last writes yet, reconciling on what there is", "key", key, "after", keytable.OwnWritesPatience)
	}
	return again
}

// came is the outcome of an attempt, as its error or its absence says. v is the primary as it was reconciled.
func came(it queue.Item, v view, a attempt) outcome {
	o := outcome{attempt: a, ops: it.Ops}
	switch {
	case a.err == nil:
		o.verdict, o.after, o.ops = succeeded, a.requeue, 0
	case a.waits != nil:
		o.verdict = waiting
	case isTerminal(a.err):
		o.verdict, o.parked = terminal, keytable.Parked{Presence: v.Presence, Object: v.Object}
		if v.Object != nil {
			o.subject = v.Object
		}
	default:
		o.verdict = failed
	}
	return o
}

// reconcileID is formatted only when something is logged.
type reconcileID uint64

func (id reconcileID) String() string { return strconv.FormatUint(uint64(id), 16) }

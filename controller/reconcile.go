package controller

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
)

// Reconciler makes the world match one primary.
//
// Reconcile is level-triggered. It reads the primary by its key, usually from the client's Lister, compares what is
// with what should be, and writes the difference. It is called concurrently for different keys (see WithWorkers), and
// never twice at once for one key. The request's operations say what made the key due. They are a hint; a correct
// reconciler works without them.
//
// A primary that is gone is reconciled with OperationDelete or OperationPurge. The reconciler then removes what the
// runtime does not know of. After it has succeeded, the runtime deletes what the primary still owns. LastKnown returns
// the last document. The Lister's error is IsNotFound then, which is no failure: a reconciler that returns it keeps its
// own teardown from ever being over.
//
// The outcome means what it means in controller-runtime:
//
//   - an error: the key is tried again with backoff, and the Result is ignored, but for its Priority;
//   - a TerminalError: the key is not tried again by itself, but when an event or a user asks for it;
//   - RequeueAfter > 0: the key is due again after that time, not rate-limited;
//   - else: the key is done until something happens.
//
// A panic counts as an error. The context carries a logger (klog.FromContext) with controller, kind, key, operations
// and an id. It ends when the grace period of a stop is over, the lease is lost, or the reconcile timeout is reached;
// context.Cause tells which.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// ReconcilerFunc makes a function a Reconciler.
type ReconcilerFunc func(ctx context.Context, req Request) (Result, error)

// Reconcile calls the function.
func (f ReconcilerFunc) Reconcile(ctx context.Context, req Request) (Result, error) {
	return f(ctx, req)
}

// Request names the primary to reconcile.
type Request struct {
	// Key is client-go's: "name", or "namespace/name" where the bucket is Namespaced.
	Key string
	// Operations are all the reasons since the last attempt that succeeded. Never empty.
	Operations Operations
}

// Result is the outcome of a reconcile. The zero value means: done; with an error its Priority alone counts.
type Result struct {
	// RequeueAfter makes the key due again after this time, but no sooner than after a millisecond. Zero or less means
	// it does not. Less than that, again and again with nothing else happening, counts as a loop: see Stats.Looping.
	RequeueAfter time.Duration
	// Priority is that of the run which follows from this one: of the retry if there is an error, else of RequeueAfter.
	// As nil it keeps, after an error, the priority that this run had, and with RequeueAfter it is PriorityBackground.
	// An event that comes first makes the key due with the higher of both priorities.
	Priority *Priority
}

func (r Result) requeue() engine.Requeue {
	requeue := engine.Requeue{After: r.RequeueAfter}
	if r.Priority != nil {
		requeue.Priority = new(queuePriority(*r.Priority))
	}
	return requeue
}

// The causes with which the context of a reconcile ends; context.Cause returns one of them.
var (
	// ErrReconcileTimeout ends a reconcile that took longer than WithReconcileTimeout allows.
	ErrReconcileTimeout = engine.ErrReconcileTimeout
	// ErrStopped ends a reconcile that was still running when the grace period of a stop was over.
	ErrStopped = engine.ErrStopped
	// ErrLeaseLost ends the running reconciles of a replica that may no longer act.
	ErrLeaseLost = engine.ErrLeaseLost
)

// TerminalError marks an error that no retry can mend. The key is parked, as in controller-runtime: time alone does not
// wake it (OperationRetry, OperationRequeue, OperationResync), but what may have mended it does:
//
//   - at once: a new revision of the primary, its deletion, a restart, OperationManual, also of WithReconcileAllOn, and
//     Put, Delete or Purge that a user enqueues;
//   - after a pause: an event of what the key owns or reads (OperationSecondary, OperationTertiary), and what has
//     changed behind an API (OperationExternal). A list that finds no difference, and the resync of an informer, which
//     shows objects as they were, are none.
//
// The pause counts from the failure and grows with each terminal error in a row, within the bounds of WithBackoff: some
// milliseconds after the first, at most five minutes by default. So events that come all the time do not make the key
// spin: there is one attempt for each pause, for all that came meanwhile. The count begins anew with a success, and
// when the primary changes.
//
// TerminalError(nil) is nil. The mark holds where the error is wrapped again with %w.
func TerminalError(err error) error { return lifecycle.TerminalError(err) }

// RetryAfter marks an error of which the reconciler knows when a retry is worthwhile: the key is due again after that
// time, instead of the backoff and of what WithErrorPolicy says, and sooner if an event asks for it. The failure
// counts as any other. RetryAfter(nil, d) is nil, and a time that is not positive marks nothing; one below a
// millisecond is a millisecond. A key that waits for an API that is away waits for that. The mark holds where the
// error is wrapped again with %w. A TerminalError inside or outside of it is terminal.
func RetryAfter(err error, after time.Duration) error { return lifecycle.RetryAfter(err, after) }

// ReconcileIDFromContext returns the id of a reconcile that its context is of, which is in the lines of its logger as
// reconcileID, too; "" for any other context. It is unique in the process.
func ReconcileIDFromContext(ctx context.Context) string {
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return ""
	}
	return r.ID()
}

// ReconcileResult is what the callback of WithOnResult gets about one attempt.
type ReconcileResult struct {
	Key        string
	Operations Operations
	// Attempt counts from 1; it goes up while attempts fail, and starts again after a success or a new revision.
	Attempt  int
	Duration time.Duration
	Err      error
	// NextDue is when the key is due again by itself; zero if only an event makes it so.
	NextDue time.Time
	// CutShort tells that Err is no failure: it came after the reconcile's context had ended because of a stop or the
	// loss of the lease. The key is reconciled again by who leads next.
	CutShort bool
}

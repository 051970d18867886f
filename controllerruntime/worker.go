package controllerruntime

import (
	"context"
	"errors"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"strconv"
	"time"
)

// comingPause is when the worker looks again for a document that the cache is about to have.
const comingPause = 20 * time.Millisecond

// errBackAgain is why a teardown ends early: the document was there when the leader was asked.
var errBackAgain = errors.New("the document exists again")

// work takes keys from the queue until it is shut down. It holds still while another replica leads.
func (e *engine) work() {
	for {
		t := e.terms.await()
		if t == nil {
			return
		}
		it, shutdown := e.queue.Get()
		if shutdown {
			return
		}
		if t.over() {
			e.queue.GiveBack(it)
			e.queue.Done(it.Key)
			if t.stop.Err() != nil {
				return
			}
			continue
		}
		e.process(t, it)
	}
}

// process brings one key one step further. Whoever it leaves the key to gives it back with done.
func (e *engine) process(t *term, it queue.Item) {
	if !e.wellFormed(it.Key) {
		e.stats.malformed.Add(1)
		t.logger.Error(nil, "Malformed key in the queue, forgotten", "key", it.Key, "operations", it.Ops)
		e.queue.CancelDelays(it.Key)
		e.queue.Done(it.Key)
		return
	}
	it = e.takeWaiting(it)
	v := e.primary.view(it.Key)
	if v.presence == coming {
		e.queue.AddAfter(it.Key, it.Ops, it.Prio, comingPause, queue.RetryDelay) // the event will be sooner
		e.queue.Done(it.Key)
		return
	}
	if v.presence != absent {
		e.forgetAsked(it.Key)
	}
	if e.anchors != nil && v.presence != absent {
		e.brake.settled(it.Key)
		if err := e.anchors.restore(t.ctx, it.Key, v); err != nil {
			e.recordFailed(t, it, err)
			return
		}
	}
	switch {
	case v.presence == absent:
		e.processAbsent(t, it)
	case v.presence == invalid:
		e.rest(t, it, v, entity.ReasonInvalid, "the document does not decode; it is reconciled once it does")
	case e.parked.holds(it.Key, v, it.Ops):
		e.queue.Done(it.Key)
	default:
		e.processPresent(t, it, v)
	}
}

// rest is for a primary that exists and is not to be reconciled now.
func (e *engine) rest(t *term, it queue.Item, v view, reason, message string) {
	if reason == entity.ReasonInvalid && it.Ops.Has(OperationPut) {
		e.event(e.regarding(it.Key, v), corev1.EventTypeWarning, reason, message)
	}
	if e.anchors != nil {
		err := e.anchors.annotate(t.ctx, it.Key, v, reconciledCondition(metav1.ConditionFalse, reason, message, v.revision))
		if err != nil {
			e.recordFailed(t, it, err)
			return
		}
	}
	e.letGo(it.Key)
	e.queue.ResetBackoff(it.Key)
	e.queue.Done(it.Key)
}

func (e *engine) processPresent(t *term, it queue.Item, v view) {
	var cached *entity.Record
	covered, observed := e.anchors == nil, false
	if e.anchors != nil {
		cached = e.anchors.cached(it.Key)
		covered = e.anchors.covers(cached, v, e.primary.streamID())
		observed = covered && cached.ObservedRevision == v.revision
	}
	// What was reconciled at this revision is not suspended at it: the annotations need not be looked through again.
	if !observed && v.suspended() {
		e.rest(t, it, v, entity.ReasonSuspended, "annotation "+SuspendAnnotation)
		return
	}
	if covered {
		e.reconcilePresent(t, it, v, cached)
		return
	}
	record, err := e.anchors.anchorFor(cached, v, e.primary.streamID())
	if err != nil {
		e.recordFailed(t, it, err)
		return
	}
	if it.Prio == queue.Background {
		e.anchorAhead(t, it, record)
		return
	}
	if err := e.anchors.put(t.ctx, it.Key, record); err != nil {
		e.recordFailed(t, it, err)
		return
	}
	e.reconcilePresent(t, it, v, record)
}

// anchorAhead writes a key's anchor, while many keys are waiting: it comes back when the server has it.
func (e *engine) anchorAhead(t *term, it queue.Item, record *entity.Record) {
	e.flights.launch(e.records.PutAsync(it.Key, record), func(_ context.Context, err error) {
		if err != nil {
			t.logger.V(4).Info("Anchor written ahead failed, will be written in turn", "key", it.Key, "err", err)
		} else {
			e.anchors.written(t.ctx, it.Key)
		}
		it.Prio = queue.Secondary
		e.queue.GiveBack(it)
		e.queue.Done(it.Key)
	})
}

// recordFailed puts a key back whose record could not be written: there is no reconcile without it, and none is lost.
func (e *engine) recordFailed(t *term, it queue.Item, err error) {
	delay := e.anchors.backoff.Delay(e.anchors.backoff.Fail(it.Key))
	if !t.over() {
		e.stats.recordErrors.Add(1)
		e.recordsHealth.Failed(t.ctx, err)
		t.logger.Error(err, "Cannot write the record, so the key is not reconciled; will try again",
			"key", it.Key, "bucket", e.statusBucket, "after", delay)
	}
	e.queue.AddAfter(it.Key, it.Ops, queue.Background, delay, queue.RetryDelay)
	e.queue.Done(it.Key)
}

// reconcilePresent calls the reconciler and settles what comes of it. record is the key's anchor.
func (e *engine) reconcilePresent(t *term, it queue.Item, v view, record *entity.Record) {
	attempt, started := e.attempt(t, it, e.anchors != nil)
	if !started {
		e.queue.Done(it.Key)
		return
	}
	condition := reconciledCondition(metav1.ConditionTrue, entity.ReasonSynced, "", v.revision)
	switch {
	case attempt.err == nil && attempt.pending != "":
		e.succeeded(it, &attempt)
		condition = reconciledCondition(metav1.ConditionFalse, entity.ReasonRetrying, waitsFor+attempt.pending, v.revision)
	case attempt.err == nil:
		e.succeeded(it, &attempt)
	case attempt.waits != nil:
		attempt.waits.wait(it, attempt.err)
		if _, turn := attempt.waits.(*turnError); turn && e.anchors != nil && e.anchors.reconciled(record, v) {
			break // it is, and a resync of all would write each record twice
		}
		condition = reconciledCondition(metav1.ConditionFalse, entity.ReasonRetrying, attempt.waits.message(), v.revision)
	case isTerminal(attempt.err):
		e.parked.park(it.Key, v)
		e.queue.ResetBackoff(it.Key)
		e.event(v.object, corev1.EventTypeWarning, entity.ReasonTerminal, attempt.err.Error())
		condition = reconciledCondition(metav1.ConditionFalse, entity.ReasonTerminal, attempt.err.Error(), v.revision)
	default:
		e.retry(t, it, &attempt)
		condition = reconciledCondition(metav1.ConditionFalse, entity.ReasonRetrying, attempt.err.Error(), v.revision)
	}
	if attempt.err != nil && attempt.waits == nil {
		e.attempted(it.Key, false)
	}
	e.report(t, it, attempt)
	if e.anchors == nil || t.ctx.Err() != nil && attempt.err != nil {
		e.queue.Done(it.Key)
		return
	}
	if attempt.wrote {
		record = withDocumentOf(record, e.anchors.cached(it.Key)) // maybe its status
	}
	e.recordOutcome(t, it, v, record, condition, attempt.status, attempt.err)
}

// recordOutcome writes what came of an attempt, and the status that it has set, if that is news; the key is done when the
// server has it, because the next attempt builds on it.
func (e *engine) recordOutcome(t *term, it queue.Item, v view, before *entity.Record, condition metav1.Condition, status *entity.StatusChange, failed error) {
	if before == nil {
		before = &entity.Record{}
	}
	record, err := e.anchors.outcome(before, v, e.primary.streamID(), condition, status)
	if err != nil && apierrors.IsConflict(err) { // the reconcile has seen a status of which the cache does not know yet
		before, err = e.anchors.live(t.ctx, it.Key)
		if err != nil {
			e.outcomeFailed(t, it, err)
			return
		}
		if before == nil {
			before = &entity.Record{}
		}
		record, err = e.anchors.outcome(before, v, e.primary.streamID(), condition, status)
	}
	if err != nil && apierrors.IsConflict(err) {
		e.statusRefused(t.ctx, t, it, v, condition, failed, err)
		return
	}
	if err != nil || record == nil {
		e.queue.Done(it.Key)
		return
	}
	if status.IsIn(before) {
		status = nil // whatever becomes of the record, it is not this status that keeps it from being written
	}
	e.launchOutcome(t, it, v, record, condition, status, failed)
}

// launchOutcome is apart from recordOutcome, which mostly finds nothing to write: what a function that outlives its caller
// refers to is allocated.
func (e *engine) launchOutcome(t *term, it queue.Item, v view, record *entity.Record, condition metav1.Condition, status *entity.StatusChange, failed error) {
	e.flights.launch(e.records.PutAsync(it.Key, record), func(ctx context.Context, err error) {
		again, cancel := context.WithCancel(t.ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		if err != nil && ctx.Err() == nil {
			err = e.anchors.putStatus(again, it.Key, record, status)
		}
		if _, refused := errors.AsType[*statusRefusedError](err); refused {
			e.statusRefused(again, t, it, v, condition, failed, err)
			return
		}
		if err != nil {
			e.outcomeFailed(t, it, err)
			return
		}
		e.anchors.refusals.Reset(it.Key)
		e.anchors.written(t.ctx, it.Key)
		e.queue.Done(it.Key)
	})
}

// outcomeFailed puts a key back whose outcome could not be written.
func (e *engine) outcomeFailed(t *term, it queue.Item, err error) {
	e.parked.forget(it.Key) // or nothing would ever say that it is
	e.recordFailed(t, queue.Item{Key: it.Key, Ops: operation.Of(OperationRetry), Prio: queue.Background}, err)
}

// attempt is one call of the reconciler and what came of it.
type attempt struct {
	number  int
	result  Result
	err     error
	took    time.Duration
	nextDue time.Time
	wrote   bool                 // through our clients
	pending string               // what external.Reconcile waits for; the key is not reconciled yet
	status  *entity.StatusChange // nil if none was set
	waits   waitsForAPI          // the error is no failure: the key has to wait for an API
}

// attempt calls the reconciler if the caches show what the key's last reconcile wrote, or have been waited for. Else, or if the
// term is over, it does not start: the key is given back. recorded says that the caller records what comes of it.
func (e *engine) attempt(t *term, it queue.Item, recorded bool) (a attempt, started bool) {
	if again := e.ownWritesMissing(t, it.Key); again > 0 {
		e.queue.AddAfter(it.Key, it.Ops, it.Prio, again, queue.RetryDelay)
		return attempt{}, false
	}
	if t.over() {
		e.queue.GiveBack(it)
		return attempt{}, false
	}
	e.forgetBlocked(it.Key)
	req := Request{Key: it.Key, Operations: it.Ops.Public()}
	own := e.reconcileContext(t, req)
	own.recorded = recorded
	ctx, cancel := context.Context(own), func() {}
	if e.opts.reconcileTimeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, e.opts.reconcileTimeout, ErrReconcileTimeout)
	}
	a.number = e.queue.Attempts(it.Key) + 1
	e.stats.running.Add(1)
	start := time.Now()
	a.err = guard(func() (err error) {
		a.result, err = e.reconciler.Reconcile(ctx, req)
		return err
	})
	a.took = time.Since(start)
	e.stats.running.Add(-1)
	cancel()
	a.wrote, a.status = !own.writes.nats.Empty(), own.status.take()
	a.waits = e.waiterFor(it.Key, a.err)
	if after, what := own.pending.get(); what != "" && a.err == nil {
		a.pending = what
		if a.result.RequeueAfter <= 0 || after < a.result.RequeueAfter {
			a.result.RequeueAfter = after
		}
	}
	e.written.put(it.Key, &own.writes)
	return a, true
}

// ownWritesMissing tells after which pause to look again for what the key's last reconcile wrote; 0 if it need not wait for it.
func (e *engine) ownWritesMissing(t *term, key string) time.Duration {
	shown, again := e.written.look(t.ctx, key)
	if !shown && again == 0 && t.ctx.Err() == nil {
		t.logger.Info("Caches do not show the key's last writes yet, reconciling on what there is", "key", key, "after", ownWritesPatience)
	}
	return again
}

func (e *engine) succeeded(it queue.Item, a *attempt) {
	e.kubeAway.forget(it.Key)
	if a.pending == "" {
		e.queue.ResetBackoff(it.Key) // what goes on behind an API may fail yet, and the next try then comes later
	}
	e.parked.forget(it.Key)
	e.resumed(it.Key)
	if after := a.result.RequeueAfter; after > 0 {
		a.nextDue = time.Now().Add(after)
		e.queue.AddAfter(it.Key, operation.Of(OperationRequeue), queue.Background, after, queue.RequeueDelay)
	}
}

// retry gives the operations back, so that the attempt which succeeds knows all its reasons.
func (e *engine) retry(t *term, it queue.Item, a *attempt) {
	e.noteKubeAway(it.Key, a.err)
	delay := e.queue.Failed(it.Key)
	if f := e.opts.errorPolicy; f != nil {
		var chosen Result
		e.callback(t.ctx, "WithErrorPolicy", func() { chosen = f(it.Key, a.err, a.number) })
		if chosen.RequeueAfter > 0 {
			delay = chosen.RequeueAfter
		}
	}
	a.nextDue = time.Now().Add(delay)
	e.queue.AddAfter(it.Key, operation.Union(it.Ops, operation.Of(OperationRetry)), queue.Background, delay, queue.RetryDelay)
}

// report counts an attempt, logs its failure and tells the user's callback.
func (e *engine) report(t *term, it queue.Item, a attempt) {
	e.stats.reconciled(a)
	if a.waits != nil {
		t.logger.V(2).Info("Key waits for an API", "key", it.Key, "operations", it.Ops.Public(), "err", a.err)
	} else if a.err != nil && t.ctx.Err() == nil {
		t.logger.Error(a.err, "Reconcile failed", "key", it.Key, "operations", it.Ops.Public(), "attempt", a.number, "nextDue", a.nextDue)
	}
	if f := e.opts.onResult; f != nil {
		e.callback(t.ctx, "WithOnResult", func() {
			f(ReconcileResult{Key: it.Key, Operations: it.Ops.Public(), Attempt: a.number, Duration: a.took, Err: a.err, NextDue: a.nextDue})
		})
	}
}

// reconcileID is formatted only when something is logged.
type reconcileID uint64

func (id reconcileID) String() string { return strconv.FormatUint(uint64(id), 16) }

func (e *engine) event(obj any, eventType, reason, message string) {
	if r, ok := obj.(runtime.Object); ok && e.opts.recorder != nil {
		e.callback(context.Background(), "WithEventRecorder", func() { e.opts.recorder.Event(r, eventType, reason, message) })
	}
}

// regarding is the object of an event: the primary as it was last known, or what stands for one that never was.
func (e *engine) regarding(key string, v view) any {
	if v.object != nil {
		return v.object
	}
	primary := &entity.Object[struct{}, struct{}]{}
	primary.Kind = e.kind
	primary.Namespace, primary.Name, _ = cache.SplitMetaNamespaceKey(key) // it is well formed
	return primary
}

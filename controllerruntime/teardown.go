package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sync"
	"time"
)

// goneCheckInterval is how long a teardown waits before it looks again whether what it deleted is gone, and goneCheckMost
// what that grows to. Usually the delete's own event wakes the key earlier.
const (
	goneCheckInterval = 250 * time.Millisecond
	goneCheckMost     = 30 * time.Second
)

// processAbsent is for a key without a document: a teardown if one is owed.
func (e *engine) processAbsent(t *term, it queue.Item) {
	if e.records == nil {
		e.reconcileGone(t, it)
		return
	}
	owed := anchored(e.anchors.cached(it.Key))
	if !owed && !it.Ops.AskedFor() {
		// Never reconciled, or torn down already.
		if err := e.removeRemark(t.ctx, it.Key); err != nil {
			e.teardownFailed(t, it, attempt{err: err}, "without an anchor")
			return
		}
		e.forgetGone(it.Key)
		e.brake.owesNothing(it.Key)
		e.queue.Done(it.Key)
		return
	}
	if e.parked.holds(it.Key, view{}, it.Ops) || !owed && e.brake.holdsSwept(it.Key) {
		e.queue.Done(it.Key)
		return
	}
	ordered := it.Ops.AskedFor() || it.Ops.Has(OperationDelete) || it.Ops.Has(OperationPurge)
	it.Ops = operation.Union(it.Ops, e.deleteOperation(it))
	seen, _ := e.primary.vanishings().get(it.Key)
	if owed && seen.resolved {
		marked, err := e.marked(t.ctx, it.Key)
		if err != nil {
			e.teardownFailed(t, it, attempt{err: err}, "before the teardown")
			return
		}
		seen.evidenced = marked
	}
	if owed && !seen.evidenced {
		if !e.brake.admits(it.Key) {
			e.queue.ResetBackoff(it.Key)
			e.queue.Done(it.Key)
			return
		}
	}
	if !seen.evidenced {
		// Nothing but the cache says so: the leader must agree before anybody acts on it.
		if err := e.mustBeGone(t.ctx, it.Key); err != nil {
			e.teardownFailed(t, it, attempt{err: err}, "before the teardown")
			return
		}
	}
	if !ordered && e.cleanUps.owed(it.Key, e.anchors.cached(it.Key)) {
		e.finish(t, it, attempt{})
		return
	}
	e.teardown(t, it)
}

// deleteOperation makes sure that the reconciler is told Delete or Purge, whatever made the key due.
func (e *engine) deleteOperation(it queue.Item) Operations {
	if it.Ops.Has(OperationPurge) {
		return operation.Of(OperationPurge)
	}
	return operation.Of(OperationDelete)
}

// teardown lets the reconciler clean up, then deletes what is still owned, and then removes the anchor. A crash between
// any two steps leaves the anchor, and so the teardown owed.
func (e *engine) teardown(t *term, it queue.Item) {
	a, started := e.attempt(t, it, false)
	if !started {
		e.queue.Done(it.Key)
		return
	}
	if a.err != nil {
		e.teardownFailed(t, it, a, "in the reconciler")
		return
	}
	if after := a.result.RequeueAfter; after > 0 {
		// Not finished yet, as a finalizer would say it: the anchor stays.
		a.nextDue = time.Now().Add(after)
		e.attempted(it.Key, true)
		e.report(t, it, a)
		if a.pending == "" {
			e.queue.ResetBackoff(it.Key)
		}
		e.queue.AddAfter(it.Key, operation.Union(e.unowed(it), operation.Union(e.deleteOperation(it), operation.Of(OperationRequeue))), queue.Background, after, queue.RequeueDelay)
		e.queue.Done(it.Key)
		return
	}
	e.cleanUps.begin(it.Key, e.anchors.cached(it.Key))
	e.finish(t, it, a)
}

// finish cleans up after a reconciler that has succeeded, now or, where a was not attempted, before: what is held up by a
// finalizer is looked at again and again, and the reconciler has nothing more to do with it.
func (e *engine) finish(t *term, it queue.Item, a attempt) {
	gone, err := e.cleanUp(t.ctx, it.Key)
	if err != nil {
		a.err, a.waits = err, e.waiterFor(it.Key, err)
		if a.waits != nil {
			it.Ops = e.unowed(it) // the reconciler has done its part: it would take the turns that the cascade waits for
		}
		e.teardownFailed(t, it, a, "after the reconciler")
		return
	}
	if !gone {
		pause := e.cleanUps.pause(it.Key)
		e.attempted(it.Key, true)
		a.nextDue = time.Now().Add(pause)
		e.reportAttempted(t, it, a)
		e.queue.ResetBackoff(it.Key)
		e.queue.AddAfter(it.Key, operation.Union(e.unowed(it), operation.Of(OperationRequeue)), queue.Background, pause, queue.RequeueDelay)
		e.queue.Done(it.Key)
		return
	}
	e.reportAttempted(t, it, a)
	e.stats.tornDown.Add(1)
	e.settled(it.Key)
	e.queue.Done(it.Key)
}

// forgetGone forgets what this process remembers of a key that is gone. A delay that the user asked for stays.
func (e *engine) forgetGone(key string) {
	e.primary.vanishings().forget(key)
	e.parked.forget(key)
	e.cleanUps.end(key)
	e.forgetAsked(key)
	e.resumed(key)
	e.written.forget(key)
	e.kubeAway.forget(key)
	e.forgetBlocked(key)
	if e.anchors != nil {
		e.anchors.backoff.Reset(key)
		e.anchors.refusals.Reset(key)
	}
	e.queue.ResetBackoff(key)
}

// unowed is what makes a teardown go on that no anchor says is owed, such as the sweep's: nothing else tells that there is
// something left to do.
func (e *engine) unowed(it queue.Item) Operations {
	if it.Ops.AskedFor() && !anchored(e.anchors.cached(it.Key)) {
		return operation.Of(OperationDelete) | operation.ByHand
	}
	return 0
}

// cleanUps are the teardowns whose reconciler has succeeded, and which wait until what they deleted is gone.
type cleanUps struct {
	mu    sync.Mutex
	byKey map[string]*cleanUpOwed
}

// cleanUpOwed is for the state of the primary that its anchor tells: any other was not cleaned up after.
type cleanUpOwed struct {
	revision uint64
	stream   string
	pause    time.Duration
}

func (c *cleanUps) begin(key string, anchor *entity.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]*cleanUpOwed{}
	}
	if owed := c.byKey[key]; owed.of(anchor) {
		return // its pauses go on growing
	}
	owed := &cleanUpOwed{pause: goneCheckInterval}
	if anchor != nil {
		owed.revision, owed.stream = anchor.DocumentRevision, anchor.Stream
	}
	c.byKey[key] = owed
}

func (o *cleanUpOwed) of(anchor *entity.Record) bool {
	return o != nil && anchor != nil && o.revision == anchor.DocumentRevision && o.stream == anchor.Stream
}

func (c *cleanUps) owed(key string, anchor *entity.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byKey[key].of(anchor)
}

// pause is how long to wait this time.
func (c *cleanUps) pause(key string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed, ok := c.byKey[key]
	if !ok {
		return goneCheckInterval
	}
	pause := owed.pause
	owed.pause = min(2*pause, goneCheckMost)
	return pause
}

func (c *cleanUps) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// settled is for a key whose teardown is finished.
func (e *engine) settled(key string) {
	e.forgetGone(key)
	if e.brake != nil {
		e.brake.settled(key)
	}
}

// cleanUp deletes what the primary still owns and then its anchor. gone is false while the caches still show some of it.
func (e *engine) cleanUp(ctx context.Context, key string) (gone bool, err error) {
	a := &absence{engine: e, key: key}
	if err := a.still(ctx); err != nil {
		return false, err
	}
	if !e.opts.withoutCascade {
		a.behind = e.behind(key) // before the intents ask: for them a list may do that is older than the teardown
	}
	left, err := e.intentsLeft(ctx, key)
	if err != nil {
		return false, err
	}
	told := left.told
	if !e.opts.withoutCascade {
		// What is known goes at once, even while some API cannot tell what there is, or what came of an intent.
		a.behind = append(a.behind, left.held...)
		gone, err := e.cascade(ctx, a)
		if err != nil {
			return false, left.before(err)
		}
		told = told && len(a.behind) == 0
		if told && !gone {
			return false, left.err
		}
	}
	if left.err != nil {
		return false, left.err
	}
	if !told {
		return false, e.cannotList(key)
	}
	if err := a.still(ctx); err != nil {
		return false, err
	}
	if a.spared {
		// What says so outlives the anchor, or the next teardown after a crash would not know.
		if err := e.removeAnchor(ctx, key); err != nil {
			return false, err
		}
		return true, e.removeIntents(ctx, key)
	}
	if err := e.removeIntents(ctx, key); err != nil {
		return false, err
	}
	return true, e.removeAnchor(ctx, key)
}

// absence is that a primary has no document, while what it owned is deleted. A cascade may take long, and the document
// may be put back meanwhile: from then on nothing more may go.
type absence struct {
	engine *engine
	key    string
	asked  time.Time // the leader
	spared bool      // something that it owned stays: external.ObserveOnly
	// behind is not to be touched: the last list is older than the teardown, and what it shows may be somebody else's by now, or an
	// operation goes on.
	behind []ownedSource
}

// absenceTrusted is how long the leader's answer is acted on, with the cache alone to say otherwise.
const absenceTrusted = 100 * time.Millisecond

// still asks the cache, and the leader where its last answer is old; errBackAgain if the document exists.
func (a *absence) still(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if a.engine.primary.exists(a.key) {
		return errBackAgain
	}
	now := time.Now()
	if now.Sub(a.asked) < absenceTrusted {
		return nil
	}
	if err := a.engine.mustBeGone(ctx, a.key); err != nil {
		return err
	}
	a.asked = now
	return nil
}

// mustBeGone asks the leader; errBackAgain if the document exists.
func (e *engine) mustBeGone(ctx context.Context, key string) error {
	_, err := e.askWhetherGone(ctx, key)
	return err
}

func (e *engine) askWhetherGone(ctx context.Context, key string) (entity.Presence, error) {
	found, err := e.primary.confirm(ctx, key)
	if err != nil {
		e.stats.leaderErrors.Add(1)
		return found, fmt.Errorf("ask the leader whether %s %q is gone: %w", e.kind, key, err)
	}
	if found.Exists {
		return found, errBackAgain
	}
	return found, nil
}

// marked tells whether the leader has a marker of the key's delete, in the stream that was known: somebody wrote it while
// this process looked on, though of a document that did not decode no event says so.
func (e *engine) marked(ctx context.Context, key string) (bool, error) {
	found, err := e.askWhetherGone(ctx, key)
	return err == nil && found.Revision > 0 && !e.brake.streamChanged(), err
}

// removeRemark removes the record of a key that was never reconciled, where there is one: why it was not, or a status that
// somebody else wrote.
func (e *engine) removeRemark(ctx context.Context, key string) error {
	if e.anchors.cached(key) == nil {
		return nil
	}
	if err := e.mustBeGone(ctx, key); err != nil {
		return err
	}
	record, err := e.records.Get(ctx, key)
	if err == nil && !anchored(record) {
		err = e.records.Delete(ctx, key, record.Revision)
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("remove the record of %s %q, which was never reconciled: %w", e.kind, key, err)
}

// removeAnchor removes the record by compare-and-set on what it is now: a status written meanwhile goes with it.
func (e *engine) removeAnchor(ctx context.Context, key string) error {
	for tries := 0; ; tries++ {
		record, err := e.records.Get(ctx, key)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = e.records.Delete(ctx, key, record.Revision)
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || tries == maxConflicts {
			return fmt.Errorf("remove the record of %s %q: %w", e.kind, key, err)
		}
	}
}

// teardownFailed tries again later, or not at all where the document is back or the error is terminal.
func (e *engine) teardownFailed(t *term, it queue.Item, a attempt, where string) {
	if a.waits == nil {
		e.attempted(it.Key, false)
	}
	switch {
	case errors.Is(a.err, errBackAgain):
		t.logger.V(2).Info("Document exists again, nothing is deleted", "key", it.Key, "noticed", where)
		a.err, a.nextDue = nil, time.Now().Add(goneCheckInterval) // the reconciler itself did not fail
		e.reportAttempted(t, it, a)
		e.cleanUps.end(it.Key)
		// The event that says so may be here already or come soon; this covers a cache that is behind.
		e.queue.ResetBackoff(it.Key)
		e.queue.AddAfter(it.Key, operation.Of(OperationPut), queue.Live, goneCheckInterval, queue.RetryDelay)
		e.queue.Done(it.Key)
		return
	case a.waits != nil:
		a.waits.wait(it, a.err)
	case isTerminal(a.err):
		e.parked.park(it.Key, view{})
		e.queue.ResetBackoff(it.Key)
		if seen, ok := e.primary.vanishings().get(it.Key); ok {
			e.event(seen.object, corev1.EventTypeWarning, entity.ReasonTerminal, a.err.Error())
		}
	case a.number == 0:
		// The reconciler was not called, so this is no attempt of its.
		e.noteKubeAway(it.Key, a.err)
		delay := e.queue.Failed(it.Key)
		if t.ctx.Err() == nil {
			t.logger.Error(a.err, "Teardown does not go on, will try again", "key", it.Key, "noticed", where, "after", delay)
		}
		e.queue.AddAfter(it.Key, operation.Union(it.Ops, operation.Of(OperationRetry)), queue.Background, delay, queue.RetryDelay)
	default:
		e.retry(t, it, &a)
	}
	e.reportAttempted(t, it, a)
	e.queue.Done(it.Key)
}

// reportAttempted reports where the reconciler was called.
func (e *engine) reportAttempted(t *term, it queue.Item, a attempt) {
	if a.number > 0 {
		e.report(t, it, a)
	}
}

// reconcileGone is the reconcile of a delete without anchors: best effort, no cascade.
func (e *engine) reconcileGone(t *term, it queue.Item) {
	if e.parked.holds(it.Key, view{}, it.Ops) {
		e.queue.Done(it.Key)
		return
	}
	a, started := e.attempt(t, it, false)
	if !started {
		e.queue.Done(it.Key)
		return
	}
	switch {
	case a.waits != nil:
		a.waits.wait(it, a.err)
	case a.err == nil:
		e.succeeded(it, &a)
		if a.nextDue.IsZero() {
			e.settled(it.Key)
		}
	case isTerminal(a.err):
		e.parked.park(it.Key, view{})
		e.queue.ResetBackoff(it.Key)
	default:
		e.retry(t, it, &a)
	}
	if a.err != nil && a.waits == nil {
		e.attempted(it.Key, false)
	}
	e.report(t, it, a)
	e.queue.Done(it.Key)
}

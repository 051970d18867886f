package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errBackAgain is why a teardown ends early: the document was there when the leader was asked.
var errBackAgain = errors.New("the document exists again")

// goneCheckInterval is how long a teardown waits before it looks again whether what it deleted is gone, and goneCheckMost
// what that grows to. Usually the delete's own event wakes the key earlier.
const (
	goneCheckInterval = 250 * time.Millisecond
	goneCheckMost     = 30 * time.Second
)

// absent is for a key without a document: a teardown if one is owed.
func (r recordedLife) absent(t *term, it queue.Item) outcome {
	e := r.engine
	owed := record.IsAnchor(e.anchors.Cached(it.Key))
	if !owed && !it.Ops.AskedFor() {
		// Never reconciled, or torn down already.
		if err := e.removeRemark(t.ctx, it.Key); err != nil {
			return r.stopped(t, it, attempt{err: err}, "without an anchor")
		}
		e.brake.ForgetDelete(it.Key)
		return outcome{verdict: nothingOwed}
	}
	if e.keys.staysParked(it.Key, view{}, it.Ops) || !owed && e.brake.HoldsOrphans(it.Key) {
		return outcome{}
	}
	ordered := it.Ops.AskedFor() || it.Ops.Has(OperationDelete) || it.Ops.Has(OperationPurge)
	it.Ops = operation.Union(it.Ops, deleteOperation(it))
	admitted, err := r.admitted(t, it, owed)
	if err != nil {
		return r.stopped(t, it, attempt{err: err}, "before the teardown")
	}
	if !admitted {
		return outcome{verdict: rests}
	}
	if !ordered && e.keys.of(it.Key).cleanUp.of(e.anchors.Cached(it.Key)) {
		return r.finish(t, it, attempt{})
	}
	return r.teardown(t, it)
}

// admitted tells whether the teardown may go on: an evidenced delete always; one that is inferred if the brake admits it, and
// the leader agrees that the document is gone.
func (r recordedLife) admitted(t *term, it queue.Item, owed bool) (bool, error) {
	e := r.engine
	evidenced := false
	if seen := e.keys.of(it.Key).deleted; seen != nil {
		evidenced = seen.evidenced
		if owed && seen.resolved {
			marked, err := e.marked(t.ctx, it.Key)
			if err != nil {
				return false, err
			}
			evidenced = marked
		}
	}
	if evidenced {
		return true, nil
	}
	if owed && !e.brake.Admit(it.Key) {
		return false, nil
	}
	return true, e.mustBeGone(t.ctx, it.Key) // nothing but the cache says so
}

// deleteOperation makes sure that the reconciler is told Delete or Purge, whatever made the key due.
func deleteOperation(it queue.Item) Operations {
	if it.Ops.Has(OperationPurge) {
		return operation.Of(OperationPurge)
	}
	return operation.Of(OperationDelete)
}

// teardown lets the reconciler clean up, then deletes what is still owned, and then removes the anchor. A crash between
// any two steps leaves the anchor, and so the teardown owed.
func (r recordedLife) teardown(t *term, it queue.Item) outcome {
	e := r.engine
	a, instead := e.call(t, it, false)
	if instead != nil {
		return *instead
	}
	if a.err != nil {
		return r.stopped(t, it, a, "in the reconciler")
	}
	if after := a.result.RequeueAfter; after > 0 {
		// Not finished yet, as a finalizer would say it: the anchor stays.
		return outcome{verdict: succeeded, attempt: a, after: after, ops: operation.Union(r.unowed(it), deleteOperation(it))}
	}
	anchor := e.anchors.Cached(it.Key)
	e.keys.change(it.Key, func(s *keyState) {
		if !s.cleanUp.of(anchor) { // else its pauses go on growing
			s.cleanUp = newCleanUp(anchor)
		}
	})
	return r.finish(t, it, a)
}

// finish cleans up after a reconciler that has succeeded, now or, where a was not attempted, before: what is held up by a
// finalizer is looked at again and again, and the reconciler has nothing more to do with it.
func (r recordedLife) finish(t *term, it queue.Item, a attempt) outcome {
	e := r.engine
	gone, err := e.cleanUp(t.ctx, it.Key)
	if err != nil {
		a.err, a.waits = err, e.waiterFor(it.Key, err)
		o := r.stopped(t, it, a, "after the reconciler")
		if o.verdict == waiting {
			o.ops = r.unowed(it) // the reconciler has done its part: it would take the turns that the cascade waits for
		}
		return o
	}
	if !gone {
		pause := goneCheckInterval
		e.keys.amend(it.Key, func(s *keyState) { pause = s.cleanUp.nextPause() })
		return outcome{verdict: succeeded, attempt: a, after: pause, ops: r.unowed(it)}
	}
	e.brake.Forget(it.Key)
	return outcome{verdict: tornDown, attempt: a}
}

// stopped is the outcome of a teardown that does not go on now: it is tried again later, or not at all where the document is
// back or the error is terminal.
func (r recordedLife) stopped(t *term, it queue.Item, a attempt, where string) outcome {
	if errors.Is(a.err, errBackAgain) {
		t.logger.V(2).Info("Document exists again, nothing is deleted", "key", it.Key, "noticed", where)
		a.err, a.waits = nil, nil // the reconciler itself did not fail
		return outcome{verdict: backAgain, attempt: a}
	}
	o := came(it, view{}, a)
	o.where = where
	if seen := r.engine.keys.of(it.Key).deleted; seen != nil && o.verdict == terminal {
		o.subject = seen.object
	}
	return o
}

// unowed is what makes a teardown go on that no anchor says is owed, such as the sweep's: nothing else tells that there is
// something left to do.
func (r recordedLife) unowed(it queue.Item) Operations {
	if it.Ops.AskedFor() && !record.IsAnchor(r.engine.anchors.Cached(it.Key)) {
		return operation.Of(OperationDelete) | operation.ByHand
	}
	return 0
}

// pendingCleanUp is a teardown whose reconciler has succeeded, and which waits until what it deleted is gone. It is for the
// state of the primary that its anchor tells: any other was not cleaned up after.
type pendingCleanUp struct {
	revision uint64
	stream   string
	pause    time.Duration
}

func newCleanUp(anchor *entity.Record) *pendingCleanUp {
	c := &pendingCleanUp{pause: goneCheckInterval}
	if anchor != nil {
		c.revision, c.stream = anchor.DocumentRevision, anchor.Stream
	}
	return c
}

func (c *pendingCleanUp) of(anchor *entity.Record) bool {
	return c != nil && anchor != nil && c.revision == anchor.DocumentRevision && c.stream == anchor.Stream
}

// nextPause is how long to wait this time; it doubles.
func (c *pendingCleanUp) nextPause() time.Duration {
	if c == nil {
		return goneCheckInterval
	}
	pause := c.pause
	c.pause = min(2*pause, goneCheckMost)
	return pause
}

// cleanUp deletes what the primary still owns and then its anchor. gone is false while the caches still show some of it.
func (e *engine) cleanUp(ctx context.Context, key string) (gone bool, err error) {
	a := &absence{engine: e, key: key}
	if err := a.still(ctx); err != nil {
		return false, err
	}
	if !e.opts.withoutCascade {
		a.behind = e.apis.Stale(key) // before the intents ask: for them a list may do that is older than the teardown
	}
	left, err := e.apis.IntentsLeft(ctx, key)
	if err != nil {
		return false, err
	}
	conclusive := left.Conclusive
	if !e.opts.withoutCascade {
		// What is known goes at once, even while some API cannot tell what there is, or what came of an intent.
		a.behind = append(a.behind, left.Held...)
		gone, err := e.cascade(ctx, a)
		if err != nil {
			return false, withLeftOpen(&left, err)
		}
		conclusive = conclusive && len(a.behind) == 0
		if conclusive && !gone {
			return false, left.Err
		}
	}
	if left.Err != nil {
		return false, left.Err
	}
	if !conclusive {
		return false, e.apis.CannotList(key)
	}
	if err := a.still(ctx); err != nil {
		return false, err
	}
	if a.spared {
		// What says so outlives the anchor, or the next teardown after a crash would not know.
		if err := e.removeAnchor(ctx, key); err != nil {
			return false, err
		}
		return true, e.apis.RemoveIntents(ctx, key)
	}
	if err := e.apis.RemoveIntents(ctx, key); err != nil {
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
	behind []source.Owned
}

// absenceTrusted is how long the leader's answer is acted on, with the cache alone to say otherwise.
const absenceTrusted = 100 * time.Millisecond

// still asks the cache, and the leader where its last answer is old; errBackAgain if the document exists.
func (a *absence) still(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if a.engine.primary.Exists(a.key) {
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
	found, err := e.primary.Confirm(ctx, key)
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
	return err == nil && found.Revision > 0 && !e.brake.StreamChanged(), err
}

// removeRemark removes the record of a key that was never reconciled, where there is one: why it was not, or a status that
// somebody else wrote.
func (e *engine) removeRemark(ctx context.Context, key string) error {
	if e.anchors.Cached(key) == nil {
		return nil
	}
	if err := e.mustBeGone(ctx, key); err != nil {
		return err
	}
	held, err := e.records.Get(ctx, key)
	if err == nil && !record.IsAnchor(held) {
		err = e.records.Delete(ctx, key, held.Revision)
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("remove the record of %s %q, which was never reconciled: %w", e.kind, key, err)
}

// removeAnchor removes the record by compare-and-set on what it is now: a status written meanwhile goes with it.
func (e *engine) removeAnchor(ctx context.Context, key string) error {
	for tries := 0; ; tries++ {
		held, err := e.records.Get(ctx, key)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = e.records.Delete(ctx, key, held.Revision)
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || tries == record.MaxConflicts {
			return fmt.Errorf("remove the record of %s %q: %w", e.kind, key, err)
		}
	}
}

package engine

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/teardown"
)

// absent is for a key without a document: a teardown if one is owed.
func (r recordedLife) absent(t *term, it queue.Item) outcome {
	e := r.engine
	owed := record.IsAnchor(e.anchors.Cached(it.Key))
	if !owed && !it.Ops.AskedFor() {
		// Never reconciled, or torn down already.
		if err := e.teardown.RemoveRemark(t.ctx, it.Key); err != nil {
			return r.stopped(t, it, attempt{err: err}, "without an anchor")
		}
		e.brake.ForgetDelete(it.Key)
		return outcome{verdict: nothingOwed}
	}
	if e.keys.StaysParked(it.Key, view{}, it.Ops) || !owed && e.brake.HoldsOrphans(it.Key) {
		return outcome{}
	}
	ordered := it.Ops.AskedFor() || it.Ops.Has(operation.Delete) || it.Ops.Has(operation.Purge)
	it.Ops = operation.Union(it.Ops, deleteOperation(it))
	admitted, err := r.admitted(t, it, owed)
	if err != nil {
		return r.stopped(t, it, attempt{err: err}, "before the teardown")
	}
	if !admitted {
		return outcome{verdict: rests}
	}
	if !ordered && e.keys.Of(it.Key).CleanUp.Of(e.anchors.Cached(it.Key)) {
		return r.finish(t, it, attempt{})
	}
	return r.teardown(t, it)
}

// admitted tells whether the teardown may go on: an evidenced delete always; one that is inferred if the brake admits it, and
// the leader agrees that the document is gone.
func (r recordedLife) admitted(t *term, it queue.Item, owed bool) (bool, error) {
	e := r.engine
	evidenced := false
	if seen := e.keys.Of(it.Key).Deleted; seen != nil {
		evidenced = seen.Evidenced
		if owed && seen.Resolved {
			marked, err := e.teardown.Marked(t.ctx, it.Key)
			if err != nil {
				return false, err
			}
			evidenced = marked && !e.brake.StreamChanged()
		}
	}
	if evidenced {
		return true, nil
	}
	if owed && !e.brake.Admit(it.Key) {
		return false, nil
	}
	return true, e.teardown.Confirm(t.ctx, it.Key) // nothing but the cache says so
}

// deleteOperation makes sure that the reconciler is told Delete or Purge, whatever made the key due.
func deleteOperation(it queue.Item) operation.Operations {
	if it.Ops.Has(operation.Purge) {
		return operation.Of(operation.Purge)
	}
	return operation.Of(operation.Delete)
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
	if after := a.requeue; after > 0 {
		// Not finished yet, as a finalizer would say it: the anchor stays.
		return outcome{verdict: succeeded, attempt: a, after: after, ops: operation.Union(r.unowed(it), deleteOperation(it))}
	}
	anchor := e.anchors.Cached(it.Key)
	e.keys.Change(it.Key, func(s *keytable.State) {
		if !s.CleanUp.Of(anchor) { // else its pauses go on growing
			s.CleanUp = keytable.NewCleanUp(anchor)
		}
	})
	return r.finish(t, it, a)
}

// finish cleans up after a reconciler that has succeeded, now or, where a was not attempted, before: what is held up by a
// finalizer is looked at again and again, and the reconciler has nothing more to do with it.
func (r recordedLife) finish(t *term, it queue.Item, a attempt) outcome {
	e := r.engine
	gone, err := e.teardown.CleanUp(t.ctx, it.Key)
	if err != nil {
		a.err, a.waits = err, e.waiterFor(it.Key, err)
		o := r.stopped(t, it, a, "after the reconciler")
		if o.verdict == waiting {
			o.ops = r.unowed(it) // the reconciler has done its part: it would take the turns that the cascade waits for
		}
		return o
	}
	if !gone {
		pause := teardown.CheckInterval
		e.keys.Amend(it.Key, func(s *keytable.State) { pause = s.CleanUp.NextPause() })
		return outcome{verdict: succeeded, attempt: a, after: pause, ops: r.unowed(it)}
	}
	e.brake.Forget(it.Key)
	return outcome{verdict: tornDown, attempt: a}
}

// stopped is the outcome of a teardown that does not go on now: it is tried again later, or not at all where the document is
// back or the error is terminal.
func (r recordedLife) stopped(t *term, it queue.Item, a attempt, where string) outcome {
	if errors.Is(a.err, teardown.ErrBackAgain) {
		t.logger.V(2).Info("Document exists again, nothing is deleted", "key", it.Key, "noticed", where)
		a.err, a.waits = nil, nil // the reconciler itself did not fail
		return outcome{verdict: backAgain, attempt: a}
	}
	o := came(it, view{}, a)
	o.where = where
	if seen := r.engine.keys.Of(it.Key).Deleted; seen != nil && o.verdict == terminal {
		o.subject = seen.Object
	}
	return o
}

// unowed is what makes a teardown go on that no anchor says is owed, such as the sweep's: nothing else tells that there is
// something left to do.
func (r recordedLife) unowed(it queue.Item) operation.Operations {
	if it.Ops.AskedFor() && !record.IsAnchor(r.engine.anchors.Cached(it.Key)) {
		return operation.Of(operation.Delete) | operation.ByHand
	}
	return 0
}

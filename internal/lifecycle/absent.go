package lifecycle

import (
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Absent is for a key without a document: a teardown if one is owed, up to the call of the reconciler.
func (r *RecordedLife) Absent(t *Term, it queue.Item) (calls queue.Item, instead *Outcome) {
	calls, instead = r.absent(t, it)
	if instead != nil {
		r.note(t, it.Key, instead)
	}
	return calls, instead
}

// TearDown goes on where the reconciler has cleaned up: it deletes what is still owned, and then removes the anchor. A
// crash between any two steps leaves the anchor, and so the teardown owed.
func (r *RecordedLife) TearDown(t *Term, it queue.Item, a Attempt) Outcome {
	o := r.tearDown(t, it, a)
	r.note(t, it.Key, &o)
	return o
}

// note tells of what a teardown waits for, or fails with.
func (r *RecordedLife) note(t *Term, key string, o *Outcome) {
	var stuck error
	if o.Verdict == Failed && o.Where != inReconciler && r.Keys.Of(key).Failures > 0 && t.Ctx.Err() == nil {
		stuck = o.Attempt.Err
	}
	switch {
	case o.Held != nil:
		if r.noteHeld(t, key, o.Held) {
			r.annotateDeleting(t, key, entity.ReasonRetrying, o.Held)
		}
	case o.Verdict == Failed && o.Where != inReconciler && stuck == nil: // one failure tells nothing
	default:
		r.noteStuck(t, key, stuck)
	}
	r.noteUnfinished(t, key, o)
}

const (
	// inReconciler is where a teardown fails that is the reconciler's fault.
	inReconciler = "in the reconciler"
	// beforeTeardown is where the leader is asked whether the document is gone.
	beforeTeardown = "before the teardown"
)

func (r *RecordedLife) absent(t *Term, it queue.Item) (calls queue.Item, instead *Outcome) {
	held := r.Anchors.Cached(it.Key)
	owed := record.IsAnchor(held)
	if held == nil && r.Records.Exists(it.Key) {
		return it, r.unknown(it)
	}
	if !owed && !it.Ops.AskedFor() {
		// Never reconciled, or torn down already.
		seen := r.Keys.Of(it.Key).Deleted
		if inferred := seen == nil || !seen.Evidenced; held != nil && inferred && r.Brake.State().Engaged {
			return it, &Outcome{Verdict: NotReconciled} // a sweep after the release asks again
		}
		err := r.Teardown.RemoveRecordWithoutAnchor(t.Ctx, it.Key)
		if errors.Is(err, record.ErrLeftAlone) { // it is reported, and makes the key due when it is mended
			return it, &Outcome{Verdict: NotReconciled}
		}
		if err != nil {
			return it, r.interrupted(t, it, Attempt{Err: err}, "without an anchor")
		}
		r.Brake.ForgetDelete(it.Key)
		return it, &Outcome{Verdict: NothingOwed}
	}
	if parked := StaysParked(r.Keys, it, source.View{}); parked != nil {
		return it, parked
	}
	if !owed && r.Brake.HoldsOrphans(it.Key) {
		return it, &Outcome{}
	}
	if owed {
		r.Keys.NoteOwed(it.Key)
	}
	ordered := it.Ops.AskedFor() || it.Ops.Gone()
	it.Ops = operation.Union(it.Ops, operation.Deletion(it.Ops))
	admitted, err := r.admitted(t, it, held)
	if err != nil {
		return it, r.interrupted(t, it, Attempt{Err: err}, beforeTeardown)
	}
	if !admitted {
		return it, &Outcome{Verdict: NotReconciled}
	}
	r.Contest(it.Key)
	if !ordered && r.Keys.Of(it.Key).CleanUp.IsFor(r.Anchors.Cached(it.Key)) {
		r.Unspent(it.Key)
		return it, r.finish(t, it, Attempt{})
	}
	return it, nil
}

// recordArrives is when to look again for a record that the cache is about to have.
const recordArrives = 20 * time.Millisecond

// unknown is for a key of which it is not known what is owed: it has a record that the cache does not have. If that is
// unreadable it is reported, and makes the key due when it is mended.
func (r *RecordedLife) unknown(it queue.Item) *Outcome {
	if r.Records.Unreadable(it.Key) {
		return &Outcome{Verdict: NotReconciled}
	}
	return &Outcome{Verdict: LookAgain, Ops: it.Ops, Prio: it.Prio, After: recordArrives}
}

// admitted tells whether the teardown may go on: an evidenced delete always; one that is inferred if the brake admits
// it, and the leader agrees that the document is gone.
func (r *RecordedLife) admitted(t *Term, it queue.Item, held *entity.Record) (bool, error) {
	evidenced, owed := false, record.IsAnchor(held)
	seen := r.Keys.Of(it.Key).Deleted
	if seen != nil {
		evidenced = seen.Evidenced
		if owed && seen.WasInvalid {
			var err error
			if evidenced, err = r.marked(t, it.Key, seen); err != nil {
				return false, err
			}
		}
	}
	if evidenced {
		return true, nil
	}
	if owed {
		if err := r.Anchors.CheckNotAhead(it.Key, held); err != nil {
			return false, err
		}
	}
	if owed && !r.Brake.Admit(it.Key) {
		return false, nil
	}
	found, err := r.Teardown.Guard.Gone(t.Ctx, it.Key) // nothing but the cache says that it is gone
	if err == nil && owed && found.Expired && seen == nil {
		r.noteAgedOut(it.Key)
		return !r.Brake.Reconsider(it.Key), nil
	}
	return err == nil, err
}

// noteAgedOut remembers of a key that it aged out before this process began to watch, so that the brake knows.
func (r *RecordedLife) noteAgedOut(key string) {
	r.Keys.Change(key, func(s *keytable.State) {
		if s.Deleted == nil { // else an event has told meanwhile
			s.Deleted = &keytable.ObservedDelete{AgedOut: true}
		}
	})
	if r.Teardown.Primaries.Exists(key) {
		r.Keys.ForgetDelete(key)
	}
}

// marked asks the leader whether it has a marker of the delete that was seen, in the stream that is known, and
// remembers that it has. The brake waits for the answer: where many documents vanish at once, each needs one.
func (r *RecordedLife) marked(t *Term, key string, seen *keytable.ObservedDelete) (bool, error) {
	defer r.Brake.Asking()()
	found, err := r.Teardown.Guard.Gone(t.Ctx, key)
	if err != nil || found.Revision == 0 && !found.Expired || r.Brake.StreamChanged() {
		return false, err
	}
	r.Keys.Amend(key, func(s *keytable.State) {
		if s.Deleted == seen {
			s.Deleted = &keytable.ObservedDelete{
				Object: seen.Object, Evidenced: !found.Expired, AgedOut: found.Expired,
			}
		}
	})
	return !found.Expired, nil
}

func (r *RecordedLife) tearDown(t *Term, it queue.Item, a Attempt) Outcome {
	if a.Err != nil {
		return *r.interrupted(t, it, a, inReconciler)
	}
	if after := a.Requeue; after > 0 {
		// Not finished yet, as a finalizer would say it: the anchor stays.
		ops := operation.Union(r.opsWithoutAnchor(it), operation.Deletion(it.Ops))
		return Outcome{Verdict: Succeeded, Attempt: a, After: after, Ops: ops}
	}
	anchor := r.Anchors.Cached(it.Key)
	r.Keys.Change(it.Key, func(s *keytable.State) {
		if !s.CleanUp.IsFor(anchor) { // else its pauses go on growing
			s.CleanUp = keytable.NewCleanUp(anchor)
		}
	})
	return *r.finish(t, it, a)
}

// finish cleans up after a reconciler that has succeeded, now or, where a was not attempted, before: what is held up
// by a finalizer is looked at again and again, and the reconciler has nothing more to do with it.
func (r *RecordedLife) finish(t *Term, it queue.Item, a Attempt) *Outcome {
	gone, held, err := r.Teardown.CleanUp(a.under(t), it.Key)
	if err != nil {
		a.Err, a.Waits = err, WaiterFor(r.Teardown.APIs, it.Key, err)
		o := r.interrupted(t, it, a, "after the reconciler")
		if o.Verdict == Waiting {
			// The reconciler has done its part: it would take the turns that the cascade waits for.
			o.Ops = r.opsWithoutAnchor(it)
		}
		return o
	}
	if !gone {
		pause := CheckInterval
		r.Keys.Amend(it.Key, func(s *keytable.State) { pause = s.CleanUp.NextPause() })
		return &Outcome{Verdict: Succeeded, Attempt: a, After: pause, Ops: r.opsWithoutAnchor(it), Held: held}
	}
	r.Brake.Forget(it.Key)
	return &Outcome{Verdict: TornDown, Attempt: a}
}

// interrupted is the outcome of a teardown that does not go on now: it is tried again later, or not at all where the
// document is back or the error is terminal.
func (r *RecordedLife) interrupted(t *Term, it queue.Item, a Attempt, where string) *Outcome {
	if errors.Is(a.Err, deletes.ErrDocumentReturned) {
		t.Logger.V(2).Info("Document exists again, nothing is deleted", "key", it.Key, "noticed", where)
		a.Err, a.Waits = nil, nil // the reconciler itself did not fail
		return &Outcome{Verdict: DocumentReturned, Attempt: a}
	}
	o := OutcomeOf(t, it, source.View{}, a)
	o.Where = where
	if seen := r.Keys.Of(it.Key).Deleted; seen != nil && o.Verdict == Terminal {
		o.Subject = seen.Object
	}
	return &o
}

// opsWithoutAnchor is what makes a teardown go on that no anchor says is owed, such as the sweep's: nothing else tells
// that there is something left to do.
func (r *RecordedLife) opsWithoutAnchor(it queue.Item) operation.Operations {
	if it.Ops.AskedFor() && !record.IsAnchor(r.Anchors.Cached(it.Key)) {
		return operation.Deletion(it.Ops) | operation.ByHand
	}
	return 0
}

package explain

import (
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stateOf says what the key does now, and since when; zero if that is not known. Of several things that are true at
// once it is the one that decides what happens next.
func (f *facts) stateOf(stream string) (State, time.Time) {
	q, v := &f.queue, &f.view
	switch {
	case !f.lead.Started || f.lead.Stopped && !q.Running:
		return Stopped, time.Time{}
	case f.run.Key != "":
		return Running, f.run.Since
	case q.Running && !v.Suspended() && v.Presence != source.Invalid: // of those a worker only writes what they are
		if q.Due != 0 {
			return Handling, time.Time{}
		}
		return Handling, q.ReadyAt
	case !f.lead.Synced && !q.Running:
		return Starting, time.Time{}
	case !f.known():
		return Unknown, time.Time{}
	case !f.lead.Leads && !q.Running && f.shared:
		return Elsewhere, time.Time{}
	case !f.lead.Leads && !q.Running:
		return Standby, time.Time{}
	case v.Presence == source.Invalid || f.isUnrecordable():
		return Invalid, f.condition(entity.ReasonInvalid)
	case f.unreadable:
		return Unreadable, time.Time{}
	case v.Suspended():
		return Suspended, f.condition(entity.ReasonSuspended)
	case f.held:
		return Held, f.heldSince
	case f.staysParked():
		return Parked, f.keys.Parked.Since
	case q.Due != 0:
		return Ready, q.ReadyAt
	case f.keys.Awaits.Away:
		return API, f.keys.Awaits.Since
	case q.Wait.IsSet():
		return f.waiting()
	}
	return f.resting(stream)
}

// waiting is for a key whose next run is delayed.
func (f *facts) waiting() (State, time.Time) {
	wait := &f.queue.Wait
	switch {
	case wait.IsQuiet():
		return Debounced, wait.Since
	case f.keys.Awaits.Kind != "":
		return Turn, f.keys.Awaits.Since
	case !f.keys.AwaitsWrites().IsZero():
		return OwnWrites, f.keys.AwaitsWrites()
	case f.failures() > 0 && f.keys.Trouble.AwaitsName:
		return Name, wait.Since
	case f.failures() > 0:
		return Retry, wait.Since
	case f.owed():
		return Deleting, wait.Since
	case wait.Kind == queue.RequeueDelay:
		return Requeue, wait.Since
	case f.keys.Looping:
		return Looping, wait.Since
	}
	return Arriving, wait.Since
}

// resting is for a key whose next run is neither due nor delayed by the runtime.
func (f *facts) resting(stream string) (State, time.Time) {
	switch {
	case f.owed():
		return Deleting, f.deletingSince()
	case f.queue.User.IsSet():
		return Delayed, f.queue.User.Since
	case f.view.Presence == source.Arriving:
		return Arriving, time.Time{}
	case f.view.Presence == source.Absent:
		return Unknown, time.Time{}
	case f.unrecorded, f.reconciled(stream):
		return Calm, f.condition(entity.ReasonSynced)
	}
	return Unreconciled, time.Time{}
}

// reconciled reports whether the record says that the document as it is was reconciled.
func (f *facts) reconciled(stream string) bool {
	r := f.record
	return r != nil && r.ObservedRevision == f.view.Revision && r.Stream == stream &&
		meta.IsStatusConditionTrue(r.Conditions, entity.ConditionReconciled)
}

// isUnrecordable reports whether the document decodes, and no record can hold it.
func (f *facts) isUnrecordable() bool {
	r := f.record
	return f.view.Presence == source.Present && r != nil && r.Invalid != nil && r.Invalid.Revision == f.view.Revision &&
		f.queue.Due == 0
}

// recorded is the condition that says what the record knows of the key.
func (f *facts) recorded() *metav1.Condition {
	if deleting := f.deletingCondition(); deleting != nil && f.view.Presence == source.Absent {
		return deleting
	}
	return f.reconciledCondition()
}

// recordedNotOK reports whether a key, at which another replica works, is not well as far as is recorded.
func (f *facts) recordedNotOK() bool {
	c := f.recorded()
	return f.view.Presence == source.Invalid || f.isUnrecordable() || f.view.Suspended() ||
		c != nil && c.Reason != entity.ReasonSynced
}

func (f *facts) staysParked() bool {
	v := f.view
	if v.Presence == source.Absent {
		v = source.View{}
	}
	return f.keys.WouldStayParked(v, f.queue.Due)
}

// failures is how many attempts, or writes about the key, failed in a row.
func (f *facts) failures() int { return f.keys.Failures + f.keys.RecordFailures + f.keys.Refusals }

// condition returns since when the record says this; zero if it does not.
func (f *facts) condition(reason string) time.Time {
	if c := f.reconciledCondition(); c != nil && c.Reason == reason {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func (f *facts) reconciledCondition() *metav1.Condition {
	if f.record == nil {
		return nil
	}
	return meta.FindStatusCondition(f.record.Conditions, entity.ConditionReconciled)
}

func (f *facts) deletingCondition() *metav1.Condition {
	if f.record == nil {
		return nil
	}
	return meta.FindStatusCondition(f.record.Conditions, entity.ConditionDeleting)
}

func (f *facts) deletingSince() time.Time {
	if c := f.deletingCondition(); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// Package lifecycle says what becomes of a primary from its anchor to its teardown: what is written before it is
// reconciled, what of an attempt is recorded, and which steps end it once its document is gone.
//
// Each step returns an [Outcome]; the engine acts on it. Nothing here calls the engine: the steps before and after a
// reconcile are functions of their own, and the engine calls the reconciler between them. Nothing here gives keys back
// to the queue, counts failures, or adds delays.
package lifecycle

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Lifecycle is what a controller keeps of its primaries beyond this process: records, which make deletes safe, or
// nothing (WithoutTeardown).
type Lifecycle interface {
	// Present is told of a key that has a document; instead is not nil if the key must not go on.
	Present(t *Term, it queue.Item, v source.View) (instead *Outcome)
	// MarkNotReconciled notes why a primary that exists is not reconciled.
	MarkNotReconciled(t *Term, it queue.Item, v source.View, reason, message string) Outcome
	// Prepare makes sure, before the reconciler is called, that the delete of the primary could not be lost. anchor is
	// its record. If instead is not nil the reconciler is not called; ahead may then be a write under way.
	Prepare(t *Term, it queue.Item, v source.View) (anchor *entity.Record, instead *Outcome, ahead *RecordWrite)
	// WriteOutcome is the write of what came of an attempt; nil if there is nothing to write.
	WriteOutcome(t *Term, it queue.Item, v source.View, anchor *entity.Record, came Verdict, a Attempt) *RecordWrite
	// Absent is the step before the reconciler is called for a primary that is gone, with the operations of calls. If
	// instead is not nil it is not called.
	Absent(t *Term, it queue.Item) (calls queue.Item, instead *Outcome)
	// TearDown is the step after that.
	TearDown(t *Term, it queue.Item, a Attempt) Outcome
	// BeginTerm is called when a term begins, before any of the keys that it has is handed out.
	BeginTerm(has func(key string) bool)
	// Contest notes that a delete of what a primary owns begins, which may arrive late.
	Contest(key string)
	// ContestedFrom returns the revision of a primary that is at this one before which a delete of what it owns may be
	// under way; 0 if none is.
	ContestedFrom(key string, revision uint64) uint64
}

// Unrecorded is the lifecycle WithoutTeardown: a delete is reconciled if this process sees it.
type Unrecorded struct{ Keys *keytable.Table }

// Present implements Lifecycle.
func (u Unrecorded) Present(*Term, queue.Item, source.View) *Outcome { return nil }

// MarkNotReconciled implements Lifecycle.
func (u Unrecorded) MarkNotReconciled(*Term, queue.Item, source.View, string, string) Outcome {
	return Outcome{Verdict: NotReconciled}
}

// Prepare implements Lifecycle.
func (u Unrecorded) Prepare(t *Term, it queue.Item, v source.View) (*entity.Record, *Outcome, *RecordWrite) {
	if v.Suspended() {
		return nil, &Outcome{Verdict: NotReconciled}, nil
	}
	return nil, nil, nil
}

// WriteOutcome implements Lifecycle.
func (u Unrecorded) WriteOutcome(*Term, queue.Item, source.View, *entity.Record, Verdict, Attempt) *RecordWrite {
	return nil
}

// Absent implements Lifecycle.
func (u Unrecorded) Absent(t *Term, it queue.Item) (queue.Item, *Outcome) {
	return it, StaysParked(u.Keys, it, source.View{})
}

// TearDown implements Lifecycle.
func (u Unrecorded) TearDown(t *Term, it queue.Item, a Attempt) Outcome {
	o := OutcomeOf(t, it, source.View{}, a)
	if o.Verdict == Succeeded && o.After <= 0 {
		o.Verdict = NothingOwed
	}
	return o
}

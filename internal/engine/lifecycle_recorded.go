package engine

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordedLife is the lifecycle with records: each primary has an anchor before its first reconcile, and is torn down when it goes.
type recordedLife struct{ engine *Engine }

// exists tells the brake, and writes an anchor again that somebody deleted.
func (r recordedLife) exists(t *term, it queue.Item, v view) *outcome {
	r.engine.brake.Forget(it.Key)
	lost := r.engine.keys.Of(it.Key).DeletedAnchor
	if lost == nil {
		return nil
	}
	if err := r.engine.anchors.Restore(t.ctx, it.Key, lost, v); err != nil {
		return &outcome{verdict: recordFailed, ops: it.Ops, err: err}
	}
	r.engine.keys.Amend(it.Key, func(s *keytable.State) {
		if s.DeletedAnchor == lost {
			s.DeletedAnchor = nil
		}
	})
	return nil
}

func (r recordedLife) rest(t *term, it queue.Item, v view, reason, message string) outcome {
	condition := record.Condition(metav1.ConditionFalse, reason, message, v.Revision)
	if err := r.engine.anchors.Annotate(t.ctx, it.Key, v, condition); err != nil {
		return outcome{verdict: recordFailed, ops: it.Ops, err: err}
	}
	return outcome{verdict: rests}
}

// prepare writes the anchor of a revision that has none yet. A key of the backlog does not wait for it: the key comes back
// when the server has it.
func (r recordedLife) prepare(t *term, it queue.Item, v view) (*entity.Record, *outcome) {
	e := r.engine
	cached := e.anchors.Cached(it.Key)
	covered := e.anchors.Covers(cached, v, e.primary.StreamID())
	// What was reconciled at this revision is not suspended at it: the annotations need not be looked through again.
	if reconciledBefore := covered && cached.ObservedRevision == v.Revision; !reconciledBefore && v.Suspended() {
		o := r.rest(t, it, v, entity.ReasonSuspended, "annotation "+entity.SuspendAnnotation)
		return nil, &o
	}
	if covered {
		return cached, nil
	}
	record, err := e.anchors.For(cached, v, e.primary.StreamID())
	if err != nil {
		return nil, &outcome{verdict: recordFailed, ops: it.Ops, err: err}
	}
	if it.Prio == queue.Background {
		return nil, &outcome{write: r.anchorAhead(t, it, record)}
	}
	if err := e.anchors.Put(t.ctx, it.Key, record); err != nil {
		return nil, &outcome{verdict: recordFailed, ops: it.Ops, err: err}
	}
	return record, nil
}

// anchorAhead writes a key's anchor while many keys wait. One that fails is written again in turn.
func (r recordedLife) anchorAhead(t *term, it queue.Item, record *entity.Record) *recordWrite {
	return &recordWrite{
		answer: r.engine.records.PutAsync(it.Key, record),
		next: func(_ context.Context, err error) outcome {
			if err != nil {
				t.logger.V(4).Info("Anchor written ahead failed, will be written in turn", "key", it.Key, "err", err)
			} else {
				r.engine.anchors.Written(t.ctx, it.Key)
			}
			return outcome{verdict: anchored}
		},
	}
}

// record writes what came of an attempt, and the status that it has set, if that is news. The key is done when the server has
// it, because the next attempt builds on it.
func (r recordedLife) record(t *term, it queue.Item, v view, before *entity.Record, came verdict, a attempt) *recordWrite {
	anchors := r.engine.anchors
	condition := record.Condition(metav1.ConditionTrue, entity.ReasonSynced, "", v.Revision)
	switch {
	case came == succeeded && a.pending != "":
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, record.WaitsFor+a.pending, v.Revision)
	case came == waiting:
		// A primary that is reconciled stays so while it waits for a turn, or a resync of all would write each record twice.
		if a.waits.Away() || !anchors.Reconciled(before, v) {
			condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, a.waits.Message(), v.Revision)
		}
	case came == terminal:
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonTerminal, a.err.Error(), v.Revision)
	case came == failed:
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, a.err.Error(), v.Revision)
	}
	if a.wrote {
		before = record.WithDocumentOf(before, anchors.Cached(it.Key)) // maybe its status
	}
	return r.outcomeWrite(t, it, v, before, condition, a)
}

func (r recordedLife) outcomeWrite(t *term, it queue.Item, v view, before *entity.Record, condition metav1.Condition, a attempt) *recordWrite {
	e, status := r.engine, a.status
	if before == nil {
		before = &entity.Record{}
	}
	record, err := e.anchors.Outcome(before, v, e.primary.StreamID(), condition, status)
	if err != nil && apierrors.IsConflict(err) { // the reconcile has seen a status of which the cache does not know yet
		if before, err = e.anchors.Live(t.ctx, it.Key); err != nil {
			return settledAs(outcomeLost(err))
		}
		if before == nil {
			before = &entity.Record{}
		}
		record, err = e.anchors.Outcome(before, v, e.primary.StreamID(), condition, status)
	}
	if err != nil && apierrors.IsConflict(err) {
		w := &outcomeWrite{recordedLife: r, term: t, it: it, view: v, condition: condition, failure: a.err}
		return &recordWrite{next: func(ctx context.Context, _ error) outcome { return w.refused(ctx, err) }}
	}
	if err != nil || record == nil {
		return nil
	}
	if status.IsIn(before) {
		status = nil // whatever becomes of the record, it is not this status that keeps it from being written
	}
	w := &outcomeWrite{recordedLife: r, term: t, it: it, view: v, condition: condition, failure: a.err, record: record, status: status}
	return &recordWrite{answer: e.records.PutAsync(it.Key, record), next: w.answered}
}

// outcomeWrite is a write of what came of an attempt.
type outcomeWrite struct {
	recordedLife
	term      *term
	it        queue.Item
	view      view
	condition metav1.Condition
	failure   error // of the attempt
	record    *entity.Record
	status    *entity.StatusChange // nil if it is in the record for certain
}

// answered writes again what was not written, in the context of its term.
func (w *outcomeWrite) answered(ctx context.Context, err error) outcome {
	again, cancel := context.WithCancel(w.term.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if err != nil && ctx.Err() == nil {
		err = w.engine.anchors.PutStatus(again, w.it.Key, w.record, w.status)
	}
	if _, isRefused := errors.AsType[*record.StatusRefusedError](err); isRefused {
		return w.refused(again, err)
	}
	if err != nil {
		return outcomeLost(err)
	}
	w.engine.anchors.Written(w.term.ctx, w.it.Key)
	return outcome{verdict: recorded}
}

// refused notes in the record that it cannot have the status, and makes the key due again, unless the retry of an attempt
// that failed does.
func (w *outcomeWrite) refused(ctx context.Context, err error) outcome {
	o := outcome{verdict: statusRefused, err: err}
	if w.failure == nil || isTerminal(w.failure) {
		o.ops = w.it.Ops
		w.condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, err.Error(), w.view.Revision)
	}
	if err := w.engine.anchors.Annotate(ctx, w.it.Key, w.view, w.condition); err != nil && ctx.Err() == nil {
		w.engine.recordsHealth.Failed(w.term.ctx, err)
	}
	return o
}

// outcomeLost is for an outcome that could not be written: the key is reconciled again.
func outcomeLost(err error) outcome {
	return outcome{verdict: recordFailed, err: err, ops: operation.Of(operation.Retry), unpark: true}
}

// settledAs is a write that needs no answer.
func settledAs(o outcome) *recordWrite {
	return &recordWrite{next: func(context.Context, error) outcome { return o }}
}

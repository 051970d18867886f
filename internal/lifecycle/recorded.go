package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordedLife is the lifecycle with records: each primary has an anchor before its first reconcile, and is torn down
// when it goes.
type RecordedLife struct {
	Keys          *keytable.Table
	Anchors       *record.Anchors
	Records       Records
	Brake         *brake.Brake
	Teardown      *Teardown
	Primary       Primary
	RecordsHealth *health.Reporter
	Health        *health.Board
	Reports       *notify.Reports
	// Warn records an event about a primary.
	Warn func(key, reason, message string)
	// Unspent is told of a key that is not reconciled now, before what may take long.
	Unspent func(key string)
	// Restored is told of each anchor that had vanished and was written again.
	Restored func()

	stuck    stuckTeardowns
	warnings notify.Lines
}

// Records are those of the primaries.
type Records interface {
	All() iter.Seq2[string, *entity.Record]
	// Exists reports whether the bucket has something under the key, Unreadable whether that is no record.
	Exists(key string) bool
	Unreadable(key string) bool
	// PutAsyncUnder sends a record; wait returns the answer. under is the context of the reconcile it is about.
	PutAsyncUnder(under context.Context, key string, record *entity.Record) (wait func(context.Context) error)
}

// Present tells the brake, and writes an anchor again that was deleted.
func (r *RecordedLife) Present(t *Term, it queue.Item, v source.View) *Outcome {
	r.Brake.Forget(it.Key)
	r.noteStuck(t, it.Key, nil)
	lost := r.Keys.Of(it.Key).DeletedAnchor
	if lost == nil {
		return nil
	}
	vanished := r.Anchors.Cached(it.Key) == nil
	if err := r.Anchors.Restore(t.Ctx, it.Key, lost, v); err != nil {
		return &Outcome{Verdict: RecordFailed, Ops: it.Ops, Err: err}
	}
	if vanished {
		r.Restored()
	}
	r.Keys.Amend(it.Key, func(s *keytable.State) {
		if s.DeletedAnchor == lost {
			s.DeletedAnchor = nil
		}
	})
	return nil
}

// MarkNotReconciled writes the reason into the condition of the record.
func (r *RecordedLife) MarkNotReconciled(t *Term, it queue.Item, v source.View, reason, message string) Outcome {
	condition := record.Condition(metav1.ConditionFalse, reason, message, cmp.Or(v.Refused, v.Revision))
	note := record.Note{Condition: condition}
	if reason == entity.ReasonInvalid {
		note.Invalid = invalidDocument(v, message)
	}
	err := r.Anchors.Annotate(t.Ctx, it.Key, v, note)
	if err != nil && !errors.Is(err, record.ErrLeftAlone) {
		return Outcome{Verdict: RecordFailed, Ops: it.Ops, Err: err}
	}
	return Outcome{Verdict: NotReconciled}
}

// Prepare writes the anchor of a revision that has none yet. A key of the backlog does not wait for it: the key comes
// back when the server has it.
func (r *RecordedLife) Prepare(
	t *Term, it queue.Item, v source.View,
) (anchor *entity.Record, instead *Outcome, ahead *RecordWrite) {
	cached := r.Anchors.Cached(it.Key)
	covered := r.Anchors.Covers(cached, v, r.Primary.StreamID()) && !r.Records.Unreadable(it.Key)
	// What was reconciled at this revision is not suspended at it: the annotations need not be looked through again.
	if reconciledBefore := covered && cached.ObservedRevision == v.Revision; !reconciledBefore && v.Suspended() {
		o := r.MarkNotReconciled(t, it, v, entity.ReasonSuspended, "annotation "+entity.SuspendAnnotation)
		return nil, &o, nil
	}
	if covered {
		return cached, nil, nil
	}
	anchor, err := r.Anchors.For(t.Ctx, cached, v, r.Primary.StreamID())
	if err == nil && it.Prio == queue.Background && !it.Ahead {
		r.Unspent(it.Key)
		return nil, &Outcome{}, r.anchorAhead(t, it, anchor)
	}
	if err == nil {
		err = r.Anchors.Put(t.Ctx, it.Key, anchor)
	}
	switch {
	case errors.Is(err, record.ErrLeftAlone): // it is reported, and makes the key due when it is mended
		return nil, &Outcome{Verdict: NotReconciled}, nil
	case errors.Is(err, record.ErrUnrecordable):
		r.Reports.Log(t.Ctx, err, "Invalid document, not reconciled until it is mended", it.Key)
		o := r.MarkNotReconciled(t, it, v, entity.ReasonInvalid, err.Error())
		return nil, &o, nil
	case err != nil:
		return nil, &Outcome{Verdict: RecordFailed, Ops: it.Ops, Err: err}, nil
	}
	r.Reports.Mended(it.Key)
	return anchor, nil, nil
}

// anchorAhead writes a key's anchor while many keys wait. One that fails is written again in turn.
func (r *RecordedLife) anchorAhead(t *Term, it queue.Item, record *entity.Record) *RecordWrite {
	return &RecordWrite{
		Answer: r.Records.PutAsyncUnder(t.Ctx, it.Key, record),
		Next: func(_ context.Context, err error) Outcome {
			if err != nil {
				t.Logger.V(4).Info("Anchor written ahead failed, will be written in turn", "key", it.Key, "err", err)
			} else {
				r.Anchors.Written(t.Ctx, it.Key)
			}
			return Outcome{Verdict: Anchored}
		},
	}
}

// WriteOutcome writes what came of an attempt, and the status that it has set, if that is news. The key is done when
// the server has it, because the next attempt builds on it. before is what Prepare returned.
func (r *RecordedLife) WriteOutcome(
	t *Term, it queue.Item, v source.View, before *entity.Record, came Verdict, a Attempt,
) *RecordWrite {
	anchors := r.Anchors
	condition := record.Condition(metav1.ConditionTrue, entity.ReasonSynced, "", v.Revision)
	switch {
	case came == Succeeded && a.Pending != "":
		waitsFor := record.WaitsFor + a.Pending
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, waitsFor, v.Revision)
	case came == Waiting:
		// A primary that is reconciled stays so while it waits for a turn, or a resync of all would write each record
		// twice.
		kind, away := a.Waits.Awaits()
		if away || !anchors.Reconciled(before, v) {
			waits := awaitsAPI(kind, away)
			condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, waits, v.Revision)
		}
	case came == Terminal:
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonTerminal, a.Err.Error(), v.Revision)
	case came == Failed:
		condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, failureOf(a.Err), v.Revision)
	}
	if came == Succeeded && a.Pending == "" && a.Requeue == 0 { // all that it wants is written
		r.Keys.Amend(it.Key, func(s *keytable.State) { s.ContestedFrom = 0 })
	}
	// The stream that the attempt began with: if another has taken its place, v was never in that one.
	stream := before.Stream
	if a.Wrote {
		before = record.WithDocumentOf(before, anchors.Cached(it.Key)) // maybe its status
	}
	return r.outcomeWrite(t, it, v, stream, before, condition, a)
}

func (r *RecordedLife) outcomeWrite(
	t *Term, it queue.Item, v source.View, stream string, before *entity.Record, condition metav1.Condition, a Attempt,
) *RecordWrite {
	status := a.Status
	if before == nil {
		before = &entity.Record{}
	}
	record, err := r.Anchors.Outcome(t.Ctx, before, v, stream, condition, status)
	if err != nil && apierrors.IsConflict(err) { // the reconcile has seen a status of which the cache does not know yet
		if before, err = r.Anchors.Live(t.Ctx, it.Key); err != nil {
			return settledAs(outcomeLost(err))
		}
		if before == nil {
			before = &entity.Record{}
		}
		record, err = r.Anchors.Outcome(t.Ctx, before, v, stream, condition, status)
	}
	if err != nil && apierrors.IsConflict(err) {
		w := &outcomeWrite{RecordedLife: r, term: t, it: it, view: v, condition: condition, failure: a.Err}
		refused := func(ctx context.Context, _ error) Outcome { return w.refused(ctx, err) }
		return &RecordWrite{Answer: atOnce, Next: refused}
	}
	if _, unread := errors.AsType[*source.UnreadError](err); unread {
		return settledAs(outcomeLost(err))
	}
	if err != nil {
		return nil
	}
	if record == nil { // also after a write that failed: it is not needed any more, or another replica made up for it
		r.Keys.Amend(it.Key, (*keytable.State).Recorded)
		return nil
	}
	if status.IsIn(before) {
		status = nil // whatever becomes of the record, it is not this status that keeps it from being written
	}
	w := &outcomeWrite{
		RecordedLife: r, term: t, it: it, view: v, under: a.under(t),
		condition: condition, failure: a.Err, record: record, status: status,
		warnsAnew: warnsAnew(before, v),
	}
	return &RecordWrite{Answer: r.Records.PutAsyncUnder(w.under, it.Key, record), Next: w.answered}
}

// outcomeWrite is a write of what came of an attempt.
type outcomeWrite struct {
	*RecordedLife
	term      *Term
	under     context.Context // of the writes
	it        queue.Item
	view      source.View
	condition metav1.Condition
	failure   error // of the attempt
	record    *entity.Record
	status    *entity.StatusChange // nil if it is in the record for certain
	warnsAnew bool                 // the record says something else of the document than before
}

// answered writes again what was not written, in the context of its term.
func (w *outcomeWrite) answered(ctx context.Context, err error) Outcome {
	if err == nil {
		w.Anchors.Written(w.term.Ctx, w.it.Key)
		w.tell()
		return Outcome{Verdict: Recorded}
	}
	again, cancel := context.WithCancel(w.under)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if ctx.Err() == nil {
		err = w.Anchors.PutStatus(again, w.it.Key, w.record, w.status)
	}
	if _, isRefused := errors.AsType[*record.StatusRefusedError](err); isRefused {
		return w.refused(again, err)
	}
	if err != nil {
		return outcomeLost(err)
	}
	w.Anchors.Written(w.term.Ctx, w.it.Key)
	w.tell()
	return Outcome{Verdict: Recorded}
}

// refused notes in the record that it cannot have the status, and makes the key due again, unless the retry of an
// attempt that failed does.
func (w *outcomeWrite) refused(ctx context.Context, err error) Outcome {
	o := Outcome{Verdict: StatusRefused, Err: err}
	if w.failure == nil || IsTerminal(w.failure) {
		o.Ops = w.it.Ops
		w.condition = record.Condition(metav1.ConditionFalse, entity.ReasonRetrying, err.Error(), w.view.Revision)
	}
	note := record.Note{Condition: w.condition}
	if err := w.Anchors.Annotate(ctx, w.it.Key, w.view, note); err != nil && ctx.Err() == nil {
		w.RecordsHealth.Failed(w.term.Ctx, err)
	}
	return o
}

// outcomeLost is for an outcome that could not be written: the key is reconciled again.
func outcomeLost(err error) Outcome {
	return Outcome{Verdict: RecordFailed, Err: err, Ops: operation.Of(operation.Retry), Unpark: true}
}

// atOnce is the answer where nothing was sent.
func atOnce(context.Context) error { return nil }

// settledAs is for a write that was not sent.
func settledAs(o Outcome) *RecordWrite {
	return &RecordWrite{Answer: atOnce, Next: func(context.Context, error) Outcome { return o }}
}

package controllerruntime

import (
	"bytes"
	"context"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"slices"
	"strings"
	"time"
)

// anchors writes records. A record that carries a controller's name is the anchor of a teardown: while it stands, a
// primary whose document is gone is a delete still owed. So it is written before the first reconcile, and before the
// reconcile of each new revision with the document about to be reconciled; without it there is no reconcile.
type anchors struct {
	engine *engine
}

func (a *anchors) cached(key string) *entity.Record {
	record, _ := a.engine.records.Cached(key)
	return record
}

// isAnchor tells whether the key owes a teardown once its document is gone.
func isAnchor(record *entity.Record) bool { return record != nil && record.Anchor() }

// covers tells whether the record already anchors this revision.
func (a *anchors) covers(record *entity.Record, v view, stream string) bool {
	return isAnchor(record) && record.DocumentRevision == v.Revision && record.Stream == stream
}

// anchorFor is the record that has to be written before the reconcile of v.
func (a *anchors) anchorFor(before *entity.Record, v view, stream string) (*entity.Record, error) {
	record := a.next(before)
	if a.covers(before, v, stream) && len(before.LastDocument) > 0 {
		return record, nil
	}
	document, err := a.engine.primary.Encode(v.Object.(runtime.Object))
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	if record.Stream != stream {
		record.ObservedRevision = 0 // of a stream that is no more
	}
	record.Stream = stream
	record.DocumentRevision = v.Revision
	record.LastDocument = a.engine.limited(document)
	record.DeletionPolicy = v.Object.GetAnnotations()[DeletionPolicyAnnotation]
	return record, nil
}

// withDocumentOf gives a cached record, which has no last document, the one of the record that was written, if that is of the same
// revision.
func withDocumentOf(written, cached *entity.Record) *entity.Record {
	if cached == nil || written == nil || cached.DocumentRevision != written.DocumentRevision || cached.Stream != written.Stream {
		return cached
	}
	record := *cached
	record.LastDocument = written.LastDocument
	return &record
}

// limited leaves out a document that is too large to be kept twice.
func (e *engine) limited(document []byte) []byte {
	if len(document) > e.lastDocumentLimit {
		return nil
	}
	return document
}

// outcome is the record to be written after an attempt, with the status that it has set; nil if there is nothing to record.
// It conflicts if that status was not read with the record before.
func (a *anchors) outcome(before *entity.Record, v view, stream string, condition metav1.Condition, status *entity.StatusChange) (*entity.Record, error) {
	with := *before
	changed, err := status.Apply(&with)
	if err != nil {
		return nil, err
	}
	synced := condition.Status == metav1.ConditionTrue
	observed := !synced || before.ObservedRevision == v.Revision
	if !changed && observed && before.Stream == stream && sameCondition(before.Conditions, condition) {
		return nil, nil
	}
	record, err := a.anchorFor(&with, v, stream)
	if err != nil {
		return nil, err
	}
	if synced {
		record.ObservedRevision = v.Revision
	}
	setCondition(record, condition)
	return record, nil
}

// reconciled tells whether a record says that the primary is reconciled as it is now.
func (a *anchors) reconciled(record *entity.Record, v view) bool {
	return record != nil && record.ObservedRevision == v.Revision && meta.IsStatusConditionTrue(record.Conditions, entity.ConditionReconciled)
}

// next copies a record for its next revision.
func (a *anchors) next(before *entity.Record) *entity.Record {
	record := entity.Record{}
	if before != nil {
		record = *before
		record.Conditions = slices.Clone(before.Conditions)
	}
	record.Controller = a.engine.name
	return &record
}

// putFitting leaves the last document out where a large status leaves no room for it: without it an anchor is still one.
func (a *anchors) putFitting(ctx context.Context, key string, record *entity.Record) error {
	err := a.engine.records.Put(ctx, key, record)
	if err != nil && len(record.LastDocument) > 0 && apierrors.IsRequestEntityTooLargeError(err) {
		record.LastDocument = nil
		err = a.engine.records.Put(ctx, key, record)
	}
	return err
}

// restore writes a lost anchor again, with the document as it is now where that is known.
func (a *anchors) restore(ctx context.Context, key string, v view) error {
	lost := a.engine.keys.of(key).deletedAnchor
	if lost == nil {
		return nil
	}
	a.engine.keys.noteDeletedAnchor(key, nil)
	if a.cached(key) != nil {
		return nil
	}
	record := a.next(lost)
	record.Revision = 0
	if v.Object != nil {
		var err error
		if record, err = a.anchorFor(record, v, a.engine.primary.StreamID()); err != nil {
			return err
		}
	}
	err := a.put(ctx, key, record)
	if err != nil {
		a.engine.keys.noteDeletedAnchor(key, lost)
	}
	return err
}

// put writes a record by compare-and-set. If somebody else wrote it meanwhile, what is ours is put on top of theirs.
func (a *anchors) put(ctx context.Context, key string, record *entity.Record) error {
	return a.putStatus(ctx, key, record, nil)
}

// putStatus is put with a status that is in the record already, and goes on top of theirs where that may be.
func (a *anchors) putStatus(ctx context.Context, key string, record *entity.Record, status *entity.StatusChange) error {
	put := a.putFitting
	if status != nil {
		put = a.engine.records.Put // no status takes the place of the last document
	}
	err := put(ctx, key, record)
	for tries := 0; err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)); tries++ {
		if tries == maxConflicts {
			return fmt.Errorf("write the record of %s %q: %d conflicts in a row: %w", a.engine.kind, key, tries, err)
		}
		if record, err = a.merged(ctx, key, record, status); err != nil {
			return err
		}
		err = put(ctx, key, record)
	}
	if err != nil && status != nil && apierrors.IsRequestEntityTooLargeError(err) {
		err = &statusRefusedError{err}
	}
	if err == nil {
		a.written(ctx, key)
	}
	return err
}

// written is told of each record that was written.
func (a *anchors) written(ctx context.Context, key string) {
	a.engine.keys.amend(key, func(s *keyState) { s.recordFailures = 0 })
	a.engine.recordsHealth.Healthy(ctx)
}

// maxConflicts bounds how often a record is put on top of another writer's in a row.
const maxConflicts = 20

// merged puts what is the runtime's in ours on top of the record as it is now: the status is its writers', and changes only
// if they have not changed it since.
func (a *anchors) merged(ctx context.Context, key string, ours *entity.Record, status *entity.StatusChange) (*entity.Record, error) {
	theirs, err := a.live(ctx, key)
	if err != nil {
		return nil, err
	}
	if theirs == nil {
		record := *ours
		record.Revision = 0
		return &record, nil
	}
	record := *ours
	record.Revision = theirs.Revision
	record.Status, record.StatusRevision = theirs.Status, theirs.StatusRevision
	record.Conditions = slices.Clone(theirs.Conditions)
	if condition := meta.FindStatusCondition(ours.Conditions, entity.ConditionReconciled); condition != nil {
		meta.SetStatusCondition(&record.Conditions, *condition)
	}
	if status.IsIn(&record) {
		return &record, nil // our own write, of which the answer was lost
	}
	if _, err := status.Apply(&record); err != nil {
		return nil, &statusRefusedError{err}
	}
	return &record, nil
}

// live reads a record; nil if there is none.
func (a *anchors) live(ctx context.Context, key string) (*entity.Record, error) {
	record, err := a.engine.records.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return record, err
}

// annotate notes why a primary is not reconciled (invalid, suspended). It makes no anchor, but brings one that is there
// up to date: the deletion policy of a document that rests counts too.
func (a *anchors) annotate(ctx context.Context, key string, v view, condition metav1.Condition) error {
	stream := a.engine.primary.StreamID()
	behind := func(record *entity.Record) bool {
		return isAnchor(record) && v.Object != nil && !a.covers(record, v, stream)
	}
	if cached := a.cached(key); cached != nil && !behind(cached) && sameCondition(cached.Conditions, condition) {
		return nil
	}
	record, err := a.engine.records.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		record = &entity.Record{} // no controller: never reconciled, no teardown owed
	} else if err != nil {
		return err
	}
	if behind(record) {
		if record, err = a.anchorFor(record, v, stream); err != nil {
			return err
		}
	}
	setCondition(record, condition)
	return a.put(ctx, key, record)
}

// conditionMessageLimit keeps records small; the log has the whole error.
const conditionMessageLimit = 1024

func reconciledCondition(status metav1.ConditionStatus, reason, message string, revision uint64) metav1.Condition {
	if len(message) > conditionMessageLimit {
		message = string(bytes.ToValidUTF8([]byte(message[:conditionMessageLimit]), nil)) + "…"
	}
	return metav1.Condition{
		Type: entity.ConditionReconciled, Status: status, Reason: reason, Message: message, ObservedGeneration: int64(revision),
	}
}

// sameCondition tells whether there is no transition to write. The message of a retry may change with each attempt: it
// is written with the transition only, or a failing key would write without end. What a key waits for does not change.
func sameCondition(conditions []metav1.Condition, want metav1.Condition) bool {
	have := meta.FindStatusCondition(conditions, entity.ConditionReconciled)
	if have == nil || have.Status != want.Status || have.Reason != want.Reason {
		return false
	}
	if strings.HasPrefix(have.Message, apisource.WaitsFor) || strings.HasPrefix(want.Message, apisource.WaitsFor) {
		return have.ObservedGeneration == want.ObservedGeneration && have.Message == want.Message
	}
	return want.Reason == entity.ReasonSynced || have.ObservedGeneration == want.ObservedGeneration
}

func setCondition(record *entity.Record, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(time.Now())
	meta.SetStatusCondition(&record.Conditions, condition)
}

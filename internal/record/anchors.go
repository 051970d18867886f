package record

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrUnrecordable is about a document, or about what else is in its record, and about no other key.
var ErrUnrecordable = errors.New("no record can hold it")

// Anchors writes records. A record that carries a controller's name is the anchor of a teardown: while it stands, a
// primary whose document is gone is a delete still owed. So it is written before the first reconcile, and before the
// reconcile of each new revision with the document about to be reconciled; without it there is no reconcile.
type Anchors struct {
	Controller string // whose anchors they are
	Kind       string // of the primaries, for errors
	Limit      int    // bytes of a last document; a larger one is left out
	Records    Records
	Primary    Primary
	// Written is called with the key of each record that was written.
	Written func(ctx context.Context, key string)
	// Overruled reports whether the record of a key that is gone is believed although it is ahead, see CheckNotAhead.
	Overruled func(key string) bool
}

// Records is where records are; entity.Records is one.
type Records interface {
	Get(ctx context.Context, key string) (*entity.Record, error)
	Cached(key string) (*entity.Record, bool)
	Put(ctx context.Context, key string, record *entity.Record) error
	// DropsSecrets reports whether a last document lacks fields that are secret.
	DropsSecrets() bool
}

// Primary is what the anchors need of the source of the primaries.
type Primary interface {
	// Encode returns no document of a revision that cannot be had any more. A *source.UnreadError may be over soon.
	Encode(ctx context.Context, obj runtime.Object) ([]byte, error)
	StreamID() string
	Stream() source.Stream
}

// Cached returns the record in the cache; nil if there is none.
func (a *Anchors) Cached(key string) *entity.Record {
	record, _ := a.Records.Cached(key)
	return record
}

// IsAnchor tells whether the key owes a teardown once its document is gone.
func IsAnchor(record *entity.Record) bool { return record != nil && record.Anchor() }

// Covers tells whether the record already anchors this revision, with its TTL: an older version does not keep that.
func (a *Anchors) Covers(record *entity.Record, v source.View, stream string) bool {
	return IsAnchor(record) && isOf(record, v, stream) && (v.Expires == "" || record.DocumentExpires == v.Expires)
}

func isOf(record *entity.Record, v source.View, stream string) bool {
	return record.DocumentRevision == v.Revision && record.Stream == stream
}

// For is the record that has to be written before the reconcile of v. The error is ErrUnrecordable, or about a document
// that could not be read.
func (a *Anchors) For(
	ctx context.Context, before *entity.Record, v source.View, stream string,
) (*entity.Record, error) {
	record := a.next(before)
	if a.Covers(before, v, stream) && len(before.LastDocument) > 0 {
		return record, nil
	}
	document, err := a.Primary.Encode(ctx, v.Object.(runtime.Object))
	if unread, ok := errors.AsType[*source.UnreadError](err); ok {
		key := source.ObjectKey(v.Object)
		return nil, fmt.Errorf("read the document of %s %q for its record: %w", a.Kind, key, unread)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: encode document: %w", ErrUnrecordable, err)
	}
	if record.Stream != stream || record.ObservedRevision > v.Revision {
		record.ObservedRevision = 0 // of a stream that is no more, or of a revision that is not there
	}
	if of := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled); of != nil &&
		(record.Stream != stream || uint64(of.ObservedGeneration) > v.Revision) {
		meta.RemoveStatusCondition(&record.Conditions, entity.ConditionReconciled)
		record.Invalid = nil
	}
	if v.Expires != "" || !isOf(record, v, stream) { // else it is forgotten by now, and the record has it
		record.DocumentExpires = v.Expires
	}
	record.Stream = stream
	record.DocumentRevision = v.Revision
	record.LastDocument = a.limited(document)
	record.DeletionPolicy = source.DeletionPolicy(v.Object)
	meta.RemoveStatusCondition(&record.Conditions, entity.ConditionDeleting)
	return record, nil
}

// WithDocumentOf gives a cached record, which has no last document, the one of the record that was written, if that
// is of the same revision.
func WithDocumentOf(written, cached *entity.Record) *entity.Record {
	if cached == nil || written == nil ||
		cached.DocumentRevision != written.DocumentRevision || cached.Stream != written.Stream {
		return cached
	}
	record := *cached
	record.LastDocument = written.LastDocument
	return &record
}

// limited leaves out a document that is too large to be kept twice.
func (a *Anchors) limited(document []byte) []byte {
	if len(document) > a.Limit {
		return nil
	}
	return document
}

// Outcome is the record to be written after an attempt, with the status that it has set; nil if there is nothing to
// record. It conflicts if that status was not read with the record before.
func (a *Anchors) Outcome(
	ctx context.Context, before *entity.Record, v source.View, stream string,
	condition metav1.Condition, status *entity.StatusChange,
) (*entity.Record, error) {
	changed, with := false, before
	if status != nil { // most attempts set none, and then nothing is copied
		copied := *before
		with = &copied
		var err error
		if changed, err = status.Apply(with); err != nil {
			return nil, err
		}
	}
	synced := condition.Status == metav1.ConditionTrue
	observed := !synced || before.ObservedRevision == v.Revision
	if !changed && observed && before.Stream == stream && sameCondition(before.Conditions, condition) &&
		SameWarnings(before.Conditions, v) {
		return nil, nil
	}
	record, err := a.For(ctx, with, v, stream)
	if err != nil {
		return nil, err
	}
	if synced {
		record.ObservedRevision = v.Revision
	}
	setCondition(record, condition)
	setWarnings(record, v)
	return record, nil
}

// Reconciled tells whether a record says that the primary is reconciled as it is now.
func (a *Anchors) Reconciled(record *entity.Record, v source.View) bool {
	return record != nil && record.ObservedRevision == v.Revision &&
		meta.IsStatusConditionTrue(record.Conditions, entity.ConditionReconciled)
}

// next copies a record for its next revision.
func (a *Anchors) next(before *entity.Record) *entity.Record {
	record := entity.Record{}
	if before != nil {
		record = *before
		record.Conditions = slices.Clone(before.Conditions)
	}
	record.Controller = a.Controller
	noteSeen(&record)
	return &record
}

// putFitting leaves the last document out where a large status leaves no room for it: without it an anchor is still
// one.
func (a *Anchors) putFitting(ctx context.Context, key string, record *entity.Record) error {
	err := a.Records.Put(ctx, key, record)
	if err != nil && len(record.LastDocument) > 0 && unrecordable(err) {
		record.LastDocument = nil
		err = a.Records.Put(ctx, key, record)
	}
	return err
}

// Restore writes an anchor again that was lost, with the document as it is now where that is known.
func (a *Anchors) Restore(ctx context.Context, key string, lost *entity.Record, v source.View) error {
	if a.Cached(key) != nil {
		return nil
	}
	record := a.next(lost)
	record.Revision = 0
	if v.Object != nil {
		// Without its document it is an anchor still.
		if with, err := a.For(ctx, record, v, a.Primary.StreamID()); err == nil {
			record = with
		}
	}
	return a.Put(ctx, key, record)
}

// Put writes a record by compare-and-set. If another writer wrote it meanwhile, what is ours is put on top of theirs.
func (a *Anchors) Put(ctx context.Context, key string, record *entity.Record) error {
	return a.PutStatus(ctx, key, record, nil)
}

// PutStatus is put with a status that is in the record already, and goes on top of theirs where that may be.
func (a *Anchors) PutStatus(ctx context.Context, key string, record *entity.Record, status *entity.StatusChange) error {
	put := a.putFitting
	if status != nil {
		put = a.Records.Put // no status takes the place of the last document
	}
	err := put(ctx, key, record)
	for tries := 0; err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)); tries++ {
		if tries == MaxConflicts {
			return fmt.Errorf("write the record of %s %q: %d conflicts in a row: %w", a.Kind, key, tries, err)
		}
		if record, err = a.merged(ctx, key, record, status); err != nil {
			return err
		}
		err = put(ctx, key, record)
	}
	if err != nil && status != nil && apierrors.IsRequestEntityTooLargeError(err) {
		err = &StatusRefusedError{err}
	} else if unrecordable(err) {
		err = fmt.Errorf("%w: %w", ErrUnrecordable, err)
	}
	if err == nil {
		a.Written(ctx, key)
	}
	return err
}

// unrecordable tells of the error of a write whether the record itself is its reason. What the server refuses may be
// the bucket's fault, which concerns other keys, too.
func unrecordable(err error) bool {
	return !errors.Is(err, entity.ErrRefused) &&
		(apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err))
}

// MaxConflicts bounds how often a record is put on top of another writer's in a row.
const MaxConflicts = 20

// merged puts what is the runtime's in ours on top of the record as it is now: the status is its writers', and
// changes only if they have not changed it since.
func (a *Anchors) merged(
	ctx context.Context, key string, ours *entity.Record, status *entity.StatusChange,
) (*entity.Record, error) {
	theirs, err := a.Live(ctx, key)
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
	if !theirs.FirstSeen.IsZero() {
		record.FirstSeen = theirs.FirstSeen
	}
	record.Conditions = slices.Clone(theirs.Conditions)
	take(&record, ours, entity.ConditionReconciled)
	take(&record, ours, entity.ConditionDeleting)
	take(&record, ours, entity.ConditionDocumentWarnings)
	if status.IsIn(&record) {
		return &record, nil // our own write, of which the answer was lost
	}
	if _, err := status.Apply(&record); err != nil {
		return nil, &StatusRefusedError{err}
	}
	return &record, nil
}

// StatusRefusedError is about a status that cannot be in the record: another writer has updated it, or it is too large.
type StatusRefusedError struct{ err error }

// Error is the reason.
func (e *StatusRefusedError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *StatusRefusedError) Unwrap() error { return e.err }

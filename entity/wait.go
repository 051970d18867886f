package entity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	waitPollMin = 10 * time.Millisecond
	// watchAfter is when a wait begins to watch: most are over before a consumer would have been made.
	watchAfter = 50 * time.Millisecond
	// waitPollMax is the longest pause between two looks of a wait that hears nothing.
	waitPollMax = time.Second
)

// A NotReconciledError says that a wait cannot succeed: the controller gave the revision up, may not or cannot
// reconcile it, or its document is gone. Only another write of the document, or of a person, changes that.
type NotReconciledError struct {
	Kind, Key string
	// Revision is what the reason is about: the revision that was waited for, or a later one.
	Revision uint64
	// Reason is ReasonTerminal, ReasonInvalid, ReasonSuspended or ReasonDeleted.
	Reason string
	// Message is the record's, for people.
	Message string
	// Invalid says where the document is invalid; nil if it is not, or its record does not say.
	Invalid *InvalidDocument
}

func (e *NotReconciledError) Error() string {
	todo := ""
	switch e.Reason {
	case ReasonTerminal:
		todo = " It is not retried by itself: change the document, or mend what the error is about. A change of " +
			"what the controller owns or watches wakes it; after any other, enqueue it by hand, or restart " +
			"the controller."
	case ReasonInvalid:
		todo = " Mend the document."
	case ReasonSuspended:
		todo = " Remove the annotation to let it be reconciled."
	}
	return fmt.Sprintf("%s %s at revision %d is not reconciled: %s: %s.%s",
		e.Kind, printable.Quote(e.Key), e.Revision, e.Reason, e.Message, todo)
}

// WaitReconciled blocks until the controller has reconciled this revision of the document, or a later one, and the
// condition Reconciled is True.
//
// It fails at once, with a *NotReconciledError, if this revision or a later one was given up (Terminal), does not
// decode (Invalid), is Suspended, or if the document is gone. It also fails if the client has no status bucket, if a
// bucket does not exist (any more), without the permission to read, and when the context ends. That last error has what
// the controller reported last, such as why it is retrying.
//
// Over a mirror whose records are one, too, it waits for what the origin's controller reports. Over a bucket with
// sources, whose records come from elsewhere, it fails: its revisions are not those of the records.
//
// It needs the permissions of a RoleOperator or RoleReader. It reads the caches if the client is started; else it reads
// live, and watches the key after some milliseconds if it may make consumers. Without that it asks about once a second.
func WaitReconciled[T IEntity](ctx context.Context, client IEntityClient[T], key string, revision uint64) error {
	w, err := newWaiter(client, key)
	if err != nil {
		return err
	}
	if w.records == nil {
		return w.noRecords()
	}
	if w.brought == sourced {
		return fmt.Errorf("waiting until %s %s is reconciled at revision %d: bucket %q has sources, and so revisions "+
			"of its own, which its records do not name: wait with a client of the origin, or use WaitFor",
			w.kind, printable.Quote(key), revision, w.bucket)
	}
	var last *Record
	seen := false // the document
	err = w.until(ctx, func(ctx context.Context) (bool, error) {
		rec, err := w.record(ctx)
		if err != nil {
			return false, err
		}
		stream := ""
		if rec != nil {
			if stream, err = w.stream(ctx, rec); err != nil {
				return false, err
			}
			last = rec
			if done, err := reconciled(w.kind, key, revision, stream, rec); done {
				return done, err
			}
		}
		return false, w.stillThere(ctx, revision, stream, rec, &seen)
	})
	if ended, ok := errors.AsType[*waitEnded](err); ok {
		return fmt.Errorf("waiting until %s %s is reconciled at revision %d: %s: %w",
			w.kind, printable.Quote(key), revision, saysOf(last), ended)
	}
	return err
}

// reconciled reports whether the record is final for the revision; err says why it was given up. What it says of an
// older revision, or of another stream, is not.
func reconciled(kind, key string, revision uint64, stream string, rec *Record) (done bool, err error) {
	condition := meta.FindStatusCondition(rec.Conditions, ConditionReconciled)
	if condition == nil {
		return false, nil
	}
	if rec.about() != stream {
		return false, nil
	}
	if condition.Status == metav1.ConditionTrue {
		return rec.ObservedRevision >= revision, nil
	}
	// An invalid or suspended revision is not reconciled, so only the condition names it.
	at := max(rec.ObservedRevision, uint64(condition.ObservedGeneration))
	if rec.Invalid != nil {
		at = rec.Invalid.Revision
	}
	if at < revision {
		return false, nil
	}
	reason := condition.Reason
	if meta.IsStatusConditionTrue(rec.Conditions, ConditionDeleting) {
		reason = ReasonDeleted
	}
	switch reason {
	case ReasonTerminal, ReasonInvalid, ReasonSuspended, ReasonDeleted:
		return true, &NotReconciledError{
			Kind: kind, Key: key, Revision: at, Reason: reason, Message: condition.Message, Invalid: rec.Invalid,
		}
	}
	return false, nil
}

// about is the stream whose document a record reports on.
func (r *Record) about() string {
	if r.Invalid != nil {
		return r.Invalid.Stream // an anchor may still be of the stream before
	}
	return r.Stream
}

// stillThere returns a NotReconciledError if the document was deleted since the revision was written. seen is whether
// there was a document. One that never was may be about to be written.
func (w *waiter) stillThere(ctx context.Context, revision uint64, stream string, rec *Record, seen *bool) error {
	if w.documentCached() {
		*seen = true
		return nil
	}
	now, err := w.confirm(ctx)
	if err != nil {
		return err
	}
	if now.Exists {
		*seen = true
		return nil
	}
	owed := rec != nil && rec.Anchor() && rec.Stream == stream && rec.DocumentRevision >= revision
	if !*seen && !owed && (revision == 0 || now.Revision <= revision) {
		return nil
	}
	return &NotReconciledError{
		Kind: w.kind, Key: w.key, Revision: max(revision, now.Revision), Reason: ReasonDeleted,
		Message: "its document was deleted",
	}
}

// WaitFor blocks until holds returns true for the record of a key. holds gets nil while there is no record. The record
// may be a cached one: it must not be modified, and may have no LastDocument. An error of holds ends the wait. Else
// WaitFor fails as WaitReconciled does, but not because of what a record says.
func WaitFor[T IEntity](
	ctx context.Context, client IEntityClient[T], key string, holds func(rec *Record) (bool, error),
) error {
	return waitFor(ctx, client, key, "its record is as wanted", holds)
}

func waitFor[T IEntity](
	ctx context.Context, client IEntityClient[T], key, what string, holds func(rec *Record) (bool, error),
) error {
	w, err := newWaiter(client, key)
	if err != nil {
		return err
	}
	if w.records == nil {
		return w.noRecords()
	}
	var last *Record
	err = w.until(ctx, func(ctx context.Context) (bool, error) {
		rec, err := w.record(ctx)
		if err != nil {
			return false, err
		}
		last = rec
		ok, err := holds(rec)
		if err != nil {
			err = &final{err}
		}
		return ok, err
	})
	if ended, ok := errors.AsType[*waitEnded](err); ok {
		return fmt.Errorf("waiting for %s %s until %s: %s: %w", w.kind, printable.Quote(key), what, saysOf(last), ended)
	}
	return err
}

// WaitForCondition is WaitFor a condition of this type with this status: one of the record, or one of the field
// "conditions" in the user's status. It does not ask which revision the condition is about.
func WaitForCondition[T IEntity](
	ctx context.Context, client IEntityClient[T], key, conditionType string, status metav1.ConditionStatus,
) error {
	what := fmt.Sprintf("its condition %s is %s", printable.Text(conditionType), printable.Text(string(status)))
	return waitFor(ctx, client, key, what, func(rec *Record) (bool, error) {
		return rec != nil && (meta.IsStatusConditionPresentAndEqual(rec.Conditions, conditionType, status) ||
			meta.IsStatusConditionPresentAndEqual(conditionsOf(rec.Status), conditionType, status)), nil
	})
}

// conditionsOf returns the conditions in a user's status, nil if it has none.
func conditionsOf(status json.RawMessage) []metav1.Condition {
	var with struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if len(status) == 0 || json.Unmarshal(status, &with) != nil {
		return nil
	}
	return with.Conditions
}

// WaitDeleted blocks until the document of a key is gone, and its record too: then what it owned is torn down. It
// deletes nothing. It returns at once for what never was.
//
// It fails at once, with a *NotReconciledError, if the teardown was given up (Terminal). The error at the end of the
// context says what is still there, and why if the controller or the brake tells. Else it fails as WaitReconciled does.
func WaitDeleted[T IEntity](ctx context.Context, client IEntityClient[T], key string) error {
	w, err := newWaiter(client, key)
	if err != nil {
		return err
	}
	w.watchesDocument = true
	remains, owed := "nothing is known", false
	err = w.until(ctx, func(ctx context.Context) (bool, error) {
		if w.documentCached() {
			remains = "its document is there: was it deleted?"
			return false, nil
		}
		now, err := w.confirm(ctx)
		if err != nil {
			return false, err
		}
		if now.Exists {
			remains = fmt.Sprintf("its document is there, at revision %d: was it deleted?", now.Revision)
			return false, nil
		}
		rec, err := w.lastRecord(ctx)
		if err != nil || rec == nil {
			return err == nil, err
		}
		remains, owed = "its document is gone, and its teardown is not over: "+saysOf(rec), true
		return false, w.gaveUp(rec)
	})
	if ended, ok := errors.AsType[*waitEnded](err); ok {
		if owed {
			remains += w.brakeNote(ctx)
		}
		return fmt.Errorf("waiting until %s %s is deleted: %s: %w", w.kind, printable.Quote(key), remains, ended)
	}
	return err
}

// lastRecord is record for one that should go: of a delete the cache may not have heard.
func (w *waiter) lastRecord(ctx context.Context) (*Record, error) {
	if w.records == nil {
		return nil, nil
	}
	if c := w.cache(); c != nil {
		if rec := c.get(w.key); rec != nil {
			return rec.Record, nil
		}
	}
	return w.records.read(ctx, w.key, w.natsKey)
}

// gaveUp returns an error if a record says that a teardown is not tried again.
func (w *waiter) gaveUp(rec *Record) error {
	deleting := meta.FindStatusCondition(rec.Conditions, ConditionDeleting)
	if deleting == nil || deleting.Status != metav1.ConditionTrue || deleting.Reason != ReasonTerminal {
		return nil
	}
	return &NotReconciledError{
		Kind: w.kind, Key: w.key, Revision: uint64(deleting.ObservedGeneration), Reason: ReasonTerminal,
		Message: "its teardown failed: " + deleting.Message,
	}
}

// brakeKey is record.KeyBrake of internal/record, which imports this package.
const brakeKey = ReservedPrefix + ".brake"

// brakeNoteTimeout bounds how much longer than its context a wait takes, to tell of the brake.
const brakeNoteTimeout = 500 * time.Millisecond

// brakeNote says that the brake is engaged; "" if it is not, or that is not known. ctx may be over.
func (w *waiter) brakeNote(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), brakeNoteTimeout)
	defer cancel()
	value, _, err := w.records.GetReserved(ctx, brakeKey)
	var state struct {
		Engaged    bool      `json:"engaged"`
		Engagement string    `json:"engagement"`
		Since      time.Time `json:"since"`
		Reason     string    `json:"reason"`
		Held       int       `json:"held"`
		Swept      int       `json:"swept"`
		Pruned     int       `json:"pruned"`
	}
	if err != nil || json.Unmarshal(value, &state) != nil || !state.Engaged {
		return ""
	}
	return fmt.Sprintf("; the brake of its controller holds deletes back since %s: %s. Put back what is missing and "+
		"should not be, then release the rest: nats kv put %s %s \"%s %d\"",
		state.Since.UTC().Format(time.RFC3339), printable.Message(state.Reason), w.records.Bucket(), releaseKey,
		printable.Text(state.Engagement), state.Held+state.Swept+state.Pruned)
}

// saysOf tells what a record says, for the error of a wait.
func saysOf(rec *Record) string {
	if rec == nil {
		return "it has no record: is its controller running?"
	}
	says := fmt.Sprintf("its record is %s, at revision %d of stream %s", rec.Phase(), rec.ObservedRevision, rec.Stream)
	if c := meta.FindStatusCondition(rec.Conditions, ConditionReconciled); c != nil {
		says += fmt.Sprintf(", %s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
	}
	return says
}

func (w *waiter) noRecords() error {
	return newInvalid(w.kind, w.bucket, w.key, "status",
		"the client has no status bucket, so nobody tells what was reconciled")
}

// waitEnded is why a wait ended before what it waited for: its context, and what was in the way at last, if anything.
type waitEnded struct{ cause, last error }

func (e *waitEnded) Error() string {
	if e.last == nil || errors.Is(e.last, e.cause) {
		return e.cause.Error()
	}
	return e.cause.Error() + "; the last look failed: " + e.last.Error()
}

func (e *waitEnded) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

// final is an error that ends a wait, whatever it is.
type final struct{ error }

func (f *final) Unwrap() error { return f.error }

// passes reports whether the error of a look is worth another one: no reply came. An answer is an answer.
func passes(err error) bool {
	if _, is := errors.AsType[*NotReconciledError](err); is {
		return false
	}
	_, is := errors.AsType[*final](err)
	if is || errors.Is(err, ErrRefused) || errors.Is(err, nats.ErrConnectionClosed) {
		return false
	}
	return !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err)
}

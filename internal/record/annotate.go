package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noteSeen notes when the primary was seen first, in a record that is written anyway.
func noteSeen(record *entity.Record) {
	if record.FirstSeen.IsZero() {
		record.FirstSeen = time.Now().UTC().Truncate(time.Second)
	}
}

// Note is what a record is to say of a primary that is not being reconciled.
type Note struct {
	Condition metav1.Condition
	Invalid   *entity.InvalidDocument // of an invalid document; its stream is filled in
	Deleting  bool                    // the document is gone: the condition is about the teardown
}

// Annotate notes why a primary is not reconciled (invalid, suspended), or not torn down. It makes no anchor, but brings
// one that is there up to date: the deletion policy of a document that rests counts too.
func (a *Anchors) Annotate(ctx context.Context, key string, v source.View, n Note) error {
	stream := a.Primary.StreamID()
	behind := func(record *entity.Record) bool {
		return IsAnchor(record) && v.Object != nil && !a.Covers(record, v, stream)
	}
	if cached := a.Cached(key); cached != nil && noted(cached, n, stream) &&
		SameWarnings(cached.Conditions, v) {
		if !behind(cached) {
			return nil
		}
		if _, err := a.For(ctx, cached, v, stream); errors.Is(err, ErrUnrecordable) {
			return nil // it cannot be brought up to date
		}
	}
	record, err := a.Live(ctx, key)
	if err != nil {
		return err
	}
	if isUnknown(record) {
		return fmt.Errorf("%w: nobody knows what the record of %s %q was", ErrLeftAlone, a.Kind, key)
	}
	if record == nil {
		record = &entity.Record{} // no controller: never reconciled, no teardown owed
	}
	if behind(record) {
		switch with, err := a.For(ctx, record, v, stream); {
		case err == nil:
			record = with
		case !errors.Is(err, ErrUnrecordable):
			return err
		}
	}
	if !IsAnchor(record) {
		record.Stream = stream // or it could not be told which revision the condition is about
	}
	noteSeen(record)
	setCondition(record, n.Condition)
	setWarnings(record, v)
	if n.Deleting {
		setDeleting(record, n.Condition)
	}
	if n.Invalid != nil {
		invalid := *n.Invalid
		invalid.Stream, record.Invalid = stream, &invalid
	}
	return a.Put(ctx, key, record)
}

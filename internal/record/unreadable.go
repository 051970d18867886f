package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The rule for what is in the place of a record and is none, see [entity.UnreadableRecordError]: it is never believed,
// it never means that nothing is owed, and it is no reason to reconcile. The last record that was good stays in the
// cache, and counts.
//
//   - What no client wrote is replaced, or removed, by the next write: on top of the last good record, or, after a
//     restart, by the anchor of a document that is about to be reconciled. A note that a document is not reconciled
//     does not replace it: it would say that nothing is owed.
//   - What was written as a record is left alone, and so is its key.
//   - Where there is no document, and no record in the cache, it is not known what is owed: the key is left alone.

// ErrLeftAlone is about a key that holds the record of another version or another controller, or a
// value of an unknown kind. It is an ErrUnrecordable.
var ErrLeftAlone = fmt.Errorf("%w: what is there is left alone", ErrUnrecordable)

// Live reads a record; nil if there is none. Of a key that holds no client's record it is the last good one, or an
// empty one if none is known, with the revision of what it takes the place of.
func (a *Anchors) Live(ctx context.Context, key string) (*entity.Record, error) {
	record, err := a.Records.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	unreadable, is := errors.AsType[*entity.UnreadableRecordError](err)
	switch {
	case !is:
		return record, err
	case !unreadable.Nobodys:
		return nil, fmt.Errorf("%w: %w", ErrLeftAlone, err)
	}
	record = &entity.Record{}
	if good := a.Cached(key); good != nil {
		record = good.Clone()
	}
	record.Revision = unreadable.Revision
	return record, nil
}

// isUnknown reports whether Live made a record for what was there and is none, because no good one is known.
func isUnknown(record *entity.Record) bool {
	return record != nil && record.SchemaVersion == 0 && record.Revision > 0
}

// CheckNotAhead returns why the record of a key that is gone is not believed: it tells of a revision that the stream of
// the primaries has not reached, so no controller can have written it. Where the stream went back, which is the brake's
// to find out, Overruled says so.
func (a *Anchors) CheckNotAhead(key string, record *entity.Record) error {
	now, told := a.Primary.Stream(), max(record.ObservedRevision, record.DocumentRevision)
	if record.Stream != now.Created || now.Highest == 0 || told <= now.Highest || a.Overruled(key) {
		return nil
	}
	return fmt.Errorf("the record of %s %q tells of revision %d, and the bucket has come to %d: it is not believed, "+
		"and nothing is deleted for it. Delete the record; what its primary owned is then the sweep's",
		a.Kind, key, told, now.Highest)
}

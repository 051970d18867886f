package lifecycle

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RemoveRecordWithoutAnchor removes the record of a key that was never reconciled, if there is one: it says why, or
// has a status that another writer wrote.
func (t *Teardown) RemoveRecordWithoutAnchor(ctx context.Context, key string) error {
	if t.Anchors.Cached(key) == nil {
		return nil
	}
	if _, err := t.Guard.Gone(ctx, key); err != nil {
		return err
	}
	held, err := t.Anchors.Live(ctx, key)
	if err == nil && held != nil && !record.IsAnchor(held) {
		err = t.Records.Delete(ctx, key, held.Revision)
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("remove the record of %s %q, which was never reconciled: %w", t.Kind, key, err)
}

// removeAnchor removes the record by compare-and-set on what it is now: a status written meanwhile goes with it.
// removed is false if there was none: an event may have begun a teardown that was about to end, and then two end.
func (t *Teardown) removeAnchor(ctx context.Context, key string) (removed bool, err error) {
	for tries := 0; ; tries++ {
		held, err := t.Anchors.Live(ctx, key)
		if err == nil && held == nil {
			return false, nil
		}
		if err == nil {
			err = t.Records.Delete(ctx, key, held.Revision)
		}
		if err == nil || apierrors.IsNotFound(err) {
			return err == nil, nil
		}
		if !apierrors.IsConflict(err) || tries == record.MaxConflicts {
			return false, fmt.Errorf("remove the record of %s %q: %w", t.Kind, key, err)
		}
	}
}

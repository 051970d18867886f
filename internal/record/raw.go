package record

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Raw returns the bytes that the key holds, whatever they are, and their revision; 0 if the key is absent. It is for a
// key to which anybody may put anything, and of which the caller judges what it says.
func (c Cell[T]) Raw(ctx context.Context) (value []byte, revision uint64, err error) {
	err = c.try(ctx, "read", func(ctx context.Context) (err error) {
		value, revision, err = c.get(ctx)
		return err
	})
	return value, revision, err
}

// DeleteAt removes the key if it is at this revision. If it is at another one, or absent, it stays as it is.
func (c Cell[T]) DeleteAt(ctx context.Context, revision uint64) error {
	return c.try(ctx, "delete", func(ctx context.Context) error {
		err := c.bucket.store.DeleteReserved(ctx, c.key, revision)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

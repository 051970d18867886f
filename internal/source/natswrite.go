package source

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rewrites implements Owned.
func (s *NATS[T]) Rewrites() bool { return true }

// Rewrite implements Owned.
func (s *NATS[T]) Rewrite(ctx context.Context, obj metav1.Object, change func(metav1.Object) error) error {
	live, err := s.client.Get(ctx, ObjectKey(obj)) // a transform may have taken something off what the cache has
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := change(live); err != nil {
		return err
	}
	return s.client.Update(ctx, live)
}

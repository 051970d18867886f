package controllerruntime

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deleter deletes objects of a Kubernetes source for cascade and sweep. Delete must ask for what was seen (a
// precondition on uid and resourceVersion) and may return IsNotFound, which is success.
type Deleter interface {
	Delete(ctx context.Context, obj metav1.Object) error
}

// DeleterFunc is a function as a Deleter.
type DeleterFunc func(ctx context.Context, obj metav1.Object) error

// Delete calls the function.
func (f DeleterFunc) Delete(ctx context.Context, obj metav1.Object) error { return f(ctx, obj) }

// A Deleter may also implement these.
type (
	// resourceNamer names the resource of the objects.
	resourceNamer interface{ ResourceName() string }

	// listAsker asks the API server why an informer over the objects does not sync; nil if it would.
	listAsker interface {
		WhyNotListed(ctx context.Context) error
	}

	// unseenOwner has objects of a primary that this process wrote and that the cache does not show yet.
	unseenOwner interface {
		Unseen(kind, key string) []metav1.Object
	}

	// liveOwner asks the API server for objects of a primary that the cache does not show.
	liveOwner interface {
		OwnedLive(ctx context.Context, kind, key string) ([]metav1.Object, error)
	}
)

package kubesource

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Deleter deletes objects of a source. Delete must ask for what was seen and may return IsNotFound, which is success.
type Deleter interface {
	Delete(ctx context.Context, obj metav1.Object) error
}

// A Deleter may also implement these.
type (
	// Validator returns what is wrong with the deleter itself, which then deletes nothing.
	Validator interface{ Validate() error }

	// ResourceNamer names the resource of the objects.
	ResourceNamer interface{ ResourceName() string }

	// Resourcer tells the resource of the objects. Proofs of ownership need it.
	Resourcer interface{ GroupResource() schema.GroupResource }
	// Accessor tells which resource the objects are of, and what is done to them beside list and watch.
	Accessor interface {
		Access() (resource schema.GroupVersionResource, verbs []string)
	}

	// Prober asks the API server about the objects, in one namespace or, for "", in all.
	Prober interface {
		// Probe lists as little as possible. It returns the API server's version, or why an informer over the
		// objects does not sync. The list must not be older than a version; "" asks for the latest.
		Probe(ctx context.Context, namespace, notOlderThan string) (version string, err error)
		// EachLive lists all objects, and returns the version of the list. f must not keep an object.
		EachLive(ctx context.Context, namespace string, f func(metav1.Object)) (version string, err error)
	}

	// UnseenOwner returns the objects of a primary that this process wrote and that the cache does not show yet.
	UnseenOwner interface {
		Unseen(kind, key string) []metav1.Object
	}

	// LiveOwner asks the API server for the objects of a primary, whether the cache shows them or not: in all
	// namespaces, or where that is forbidden in those that it is given. With an error that the list is forbidden, or
	// that there is no such resource, it returns what it found otherwise.
	LiveOwner interface {
		OwnedLive(ctx context.Context, kind, key string, namespaces func() []string) ([]metav1.Object, error)
	}

	// LiveReader reads an object at the API server, by its name; nil if there is none.
	LiveReader interface {
		Live(ctx context.Context, obj metav1.Object) (metav1.Object, error)
	}

	// Clustered tells clusters apart: objects of one cluster have equal ones.
	Clustered interface {
		Cluster() any
	}

	// Marker writes labels and annotations into an object as it was read, takes off those that are nil, and leaves the
	// others.
	Marker interface {
		Mark(ctx context.Context, obj metav1.Object, labels, annotations map[string]*string) error
	}

	// Writer tells whether it has written an object, as far as the object itself shows, for the controller of that
	// name.
	Writer interface {
		WrittenBy(obj metav1.Object, controller string) bool
	}
)

// Access is the resource of the objects, and what the source does to them; ok is false where the deleter knows none.
func (s *Source) Access() (resource schema.GroupVersionResource, verbs []string, ok bool) {
	d, ok := s.config.Deleter.(Accessor)
	if !ok {
		return resource, nil, false
	}
	resource, verbs = d.Access()
	return resource, append([]string{"list", "watch"}, verbs...), true
}

// WrittenBy reports whether the source's deleter has written an object for the controller of that name.
func (s *Source) WrittenBy(obj metav1.Object, controller string) bool {
	d, ok := s.config.Deleter.(Writer)
	return ok && d.WrittenBy(obj, controller)
}

// Cluster tells the source's cluster from others; nil where the deleter does not tell.
func (s *Source) Cluster() any {
	if d, ok := s.config.Deleter.(Clustered); ok {
		return d.Cluster()
	}
	return nil
}

// ResourceOf is the resource of a deleter's objects, as proofs of ownership name it; unknown if it does not tell.
func ResourceOf(d Deleter) owner.Resource {
	r, ok := d.(Resourcer)
	if !ok {
		return owner.Resource{}
	}
	return owner.ResourceOfKube(r.GroupResource().Group, r.GroupResource().Resource)
}

// Over says what the informer is over.
func (s *Source) Over() string { return nameOf(s.informer, s.config) }

package kube

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Deleter returns a deleter that deletes as Delete does, for controller.WithDeleter. Owns uses it already.
func (k *Handle[T]) Deleter() controller.Deleter { return handleDeleter[T]{k} }

// handleDeleter is a handle as a Deleter that knows of its own writes, too.
type handleDeleter[T Object] struct{ k *Handle[T] }

var (
	_ kubesource.Prober        = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.ResourceNamer = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.UnseenOwner   = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.Resourcer     = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.LiveOwner     = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.LiveReader    = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.Accessor      = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.Writer        = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.Marker        = handleDeleter[*unstructured.Unstructured]{}
	_ kubesource.Clustered     = handleDeleter[*unstructured.Unstructured]{}
)

// Delete implements Deleter.
func (d handleDeleter[T]) Delete(ctx context.Context, obj metav1.Object) error {
	return d.k.Delete(ctx, obj)
}

// Probe implements kubesource.Prober.
func (d handleDeleter[T]) Probe(ctx context.Context, namespace, notOlderThan string) (version string, err error) {
	return d.k.deleter.Probe(ctx, namespace, notOlderThan)
}

// EachLive implements kubesource.Prober.
func (d handleDeleter[T]) EachLive(
	ctx context.Context, namespace string, f func(metav1.Object),
) (version string, err error) {
	return d.k.deleter.EachLive(ctx, namespace, f)
}

// Live implements kubesource.LiveReader.
func (d handleDeleter[T]) Live(ctx context.Context, obj metav1.Object) (metav1.Object, error) {
	return d.k.deleter.Live(ctx, obj)
}

// ResourceName names the resource.
func (d handleDeleter[T]) ResourceName() string { return d.k.deleter.ResourceName() }

// GroupResource is the resource.
func (d handleDeleter[T]) GroupResource() schema.GroupResource { return d.k.resource.GroupResource() }

// Cluster implements kubesource.Clustered.
func (d handleDeleter[T]) Cluster() any { return d.k.deleter.Cluster() }

// Access implements kubesource.Accessor.
func (d handleDeleter[T]) Access() (resource schema.GroupVersionResource, verbs []string) {
	resource, verbs = d.k.deleter.Access()
	return resource, append(verbs, "create", "patch")
}

// Mark implements kubesource.Marker.
func (d handleDeleter[T]) Mark(
	ctx context.Context, obj metav1.Object, labels, annotations map[string]*string,
) error {
	return d.k.deleter.Mark(ctx, obj, labels, annotations)
}

// Unseen are own writes that the cache does not show yet. A teardown that trusted the cache alone would take its end
// for done and leave them behind.
func (d handleDeleter[T]) Unseen(kind, key string) []metav1.Object {
	var objects []metav1.Object
	for name := range d.k.own.Own.Keys() {
		obj := d.k.lookup(name)
		if obj == nil {
			continue
		}
		if entity.IsOwnedBy(obj, kind, key) {
			objects = append(objects, obj)
		}
	}
	return objects
}

// Delete deletes obj as it was read, with preconditions on its uid and resourceVersion; see Deleter. An object that is
// absent is success. Inside a reconcile, an object that is not the primary's, or names no installation, is a
// *ResourceExistsError; only under the Kumori API one without an installation is the primary's. An object whose labels
// name another owner than its annotations is a *controller.ContradictingMarksError, and one without the proof that
// controller.WithOwnerProof wants a *controller.UnprovenError. Apply mends all of them. The object may outlive the
// call, with a deletionTimestamp, where finalizers hold it.
func (k *Handle[T]) Delete(ctx context.Context, obj metav1.Object) error {
	key := source.ObjectKey(obj)
	r, reconciling := reconcilectx.Of(ctx)
	if reconciling {
		if err := k.mayDelete(ctx, r, key, obj); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	if err := k.deleter.Delete(ctx, obj); err != nil {
		return k.watching.NoteUnanswered(err)
	}
	if dryrun.Of(ctx) != nil {
		return nil
	}
	k.memory(ctx).Forget(key)
	w := kubewrites.DeleteOf(obj.GetUID())
	if reconciling {
		// Only the server knows whether something holds it; who deletes may want to know too.
		if live, err := k.live(ctx, key); err == nil && live != nil && live.GetUID() == obj.GetUID() {
			w = kubewrites.WriteOf(live)
		}
	}
	k.own.Add(ctx, key, w)
	return nil
}

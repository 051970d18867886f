package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/kubewrites"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Object is an object of the Kubernetes API: a typed one such as *appsv1.Deployment, or *unstructured.Unstructured.
type Object interface {
	runtime.Object
	metav1.Object
}

// Handle reads and writes the objects of one Kubernetes resource. [New] makes one.
//
// Reads come from the informer's cache and send no request. They show what this handle wrote, or what came later, and
// return copies.
//
// Writes inside a reconcile, which are those with the reconcile's context, make the reconciled primary the owner. They
// never touch an object that is not the primary's, and send nothing when nothing changes. The key's next reconcile
// waits, bounded, until the cache shows them. Outside a reconcile a write needs WithFieldManager; an object that names
// its owner (Controller.SetOwner) is then treated as in a reconcile of that owner.
//
// A Handle may be used concurrently. Make one per resource and share it, because a handle knows its own writes only.
// For the rights that it needs see the package comment.
type Handle[T Object] struct {
	client   dynamic.Interface
	resource schema.GroupVersionResource
	kind     string // "" for unstructured objects, which bring it
	manager  string // "" for the controller's name
	deleter  *resourceDeleter
	informer cache.SharedIndexInformer
	own      *kubewrites.Overlay
	applied  *kubewrites.Memory
	watching *kubesource.WatchErrors
}

// New makes a handle for the objects of one resource.
//
// The informer is the user's to start and to stop. Its objects must be of that resource: T, *unstructured.Unstructured
// (package dynamicinformer), or *metav1.PartialObjectMetadata (package metadatainformer). It may be confined to a
// namespace or a selector, if all that is written falls into it. With a metadata-only informer Get and List return
// objects that have metadata only, and CreateOrUpdate reads live.
//
// New adds an index by owner to the informer. It also sets the informer's watch error handler if the informer has not
// been started; see controller.WithWatchErrorHandler. New sends no request. The error names all arguments that cannot
// work.
//
// To make the objects secondaries of a controller, give controller.New the handle's Owns.
func New[T Object](
	client dynamic.Interface, resource schema.GroupVersionResource, informer cache.SharedIndexInformer, opts ...Option,
) (*Handle[T], error) {
	var o handleOptions
	errs := []error{checkType[T]()}
	for _, opt := range opts {
		if opt != nil {
			errs = append(errs, opt(&o))
		}
	}
	if guard.IsNil(client) || guard.IsNil(informer) || resource.Resource == "" || resource.Version == "" {
		errs = append(errs, errors.New("a client, an informer, and a resource with its version are needed"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("kube.New(%s): %w", kubeapi.ResourceName(resource), err)
	}
	deleter, err := newResourceDeleter(client, resource, o.delete)
	if err != nil {
		return nil, fmt.Errorf("kube.New(%s): %w", kubeapi.ResourceName(resource), err)
	}
	if err := kubesource.AddOwnerIndex(informer); err != nil {
		return nil, fmt.Errorf("kube.New(%s): index the informer by owner: %w", kubeapi.ResourceName(resource), err)
	}
	if o.kind == "" {
		o.kind = kindOfType[T]()
	}
	watching := kubesource.WatchErrorsOf(informer) // the earlier the better: once it runs it is too late
	watching.ProbeWith(deleter)
	own := kubewrites.NewOverlay(informer, watching)
	return &Handle[T]{
		client: client, resource: resource, kind: o.kind, manager: o.manager, deleter: deleter,
		informer: informer, own: own, applied: kubewrites.NewMemory(own.Stored),
		watching: watching,
	}, nil
}

// Resource returns the resource that New was given.
func (k *Handle[T]) Resource() schema.GroupVersionResource { return k.resource }

// Informer returns the informer that New was given.
func (k *Handle[T]) Informer() cache.SharedIndexInformer { return k.informer }

// Owns makes the objects secondaries of the controller's primaries. It is controller.OwnsKube with this handle's
// informer and deleter.
func (k *Handle[T]) Owns(opts ...controller.SourceOption) controller.Option {
	deletes := controller.WithDeleter(k.Deleter())
	return controller.OwnsKube(k.informer, append([]controller.SourceOption{deletes}, opts...)...)
}

// Watches makes the objects tertiaries. It is controller.WatchesKube with this handle's informer; keys gets a copy of
// the object, as a T.
func (k *Handle[T]) Watches(
	keys func(context.Context, T) ([]string, error), opts ...controller.SourceOption,
) controller.Option {
	if keys == nil {
		return controller.WatchesKube(k.informer, nil)
	}
	return controller.WatchesKube(k.informer, func(ctx context.Context, obj metav1.Object) ([]string, error) {
		typed, err := k.fromCache(obj)
		if err != nil {
			return nil, err
		}
		return keys(ctx, typed)
	}, append([]controller.SourceOption{controller.WithSourceName(kubeapi.ResourceName(k.resource))}, opts...)...)
}

// Keep says, inside a reconcile, which objects the primary is to own beside those that the reconcile writes through
// the handle; see controller.WithPrune.
func (k *Handle[T]) Keep(ctx context.Context, keys ...string) {
	controller.KeepKube(ctx, k.informer, keys...)
}

// Get returns a copy of the object with that key, "name" or "namespace/name". The error is IsNotFound if there is none,
// and IsServiceUnavailable until the informer has synced.
func (k *Handle[T]) Get(key string) (T, error) {
	var none T
	if err := k.synced(); err != nil {
		return none, err
	}
	item := k.lookup(key)
	if item == nil {
		return none, k.notFound(key)
	}
	return k.fromCache(item)
}

// List returns copies of the objects whose labels match the selector, in no order; a nil selector matches all. The
// error is IsServiceUnavailable until the informer has synced.
func (k *Handle[T]) List(selector labels.Selector) ([]T, error) {
	return k.collect(func(obj metav1.Object) bool {
		return selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels()))
	}, func() ([]metav1.Object, error) { return source.StoreObjects(k.informer.GetStore()), nil })
}

// OwnedBy returns copies of the objects that name the owner with this kind and key, of every installation: in their
// annotations, or where these are gone in their labels. It reads an index, not all objects. The error is
// IsServiceUnavailable until the informer has synced.
func (k *Handle[T]) OwnedBy(kind, key string) ([]T, error) {
	return k.collect(func(obj metav1.Object) bool {
		return entity.IsOwnedBy(obj, kind, key)
	}, func() ([]metav1.Object, error) { return kubesource.Owned(k.informer, kind, key) })
}

// collect merges the cached objects with own writes that the cache does not show yet.
func (k *Handle[T]) collect(
	matches func(metav1.Object) bool, cached func() ([]metav1.Object, error),
) ([]T, error) {
	if err := k.synced(); err != nil {
		return nil, err
	}
	own := k.own.Own.Keys() // before the cache is read: what is no longer there by then is in the cache
	items, err := cached()
	if err != nil {
		return nil, fmt.Errorf("list %s from the cache: %w", kubeapi.ResourceName(k.resource), err)
	}
	var out []T
	add := func(item metav1.Object) error {
		if item == nil || !matches(item) {
			return nil
		}
		obj, err := k.fromCache(item)
		out = append(out, obj)
		return err
	}
	for _, obj := range items {
		if _, written := own[source.ObjectKey(obj)]; written {
			continue // comes below
		}
		if err := add(obj); err != nil {
			return nil, err
		}
	}
	for key := range own {
		if err := add(k.lookup(key)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lookup returns the object of a key as cached or as written since; nil if there is none. It is shared.
func (k *Handle[T]) lookup(key string) metav1.Object { return k.own.Lookup(key) }

// live reads an object from the API server; nil if there is none.
func (k *Handle[T]) live(ctx context.Context, key string) (metav1.Object, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, err
	}
	obj, err := k.at(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !kubeapi.WrongPath(err) {
		return nil, nil
	}
	if err != nil {
		return nil, k.explain("read", key, err)
	}
	return obj, nil
}

func (k *Handle[T]) at(namespace string) plannable {
	return resourceAt(k.client, k.resource, namespace)
}

func resourceAt(
	client dynamic.Interface, resource schema.GroupVersionResource, namespace string,
) plannable {
	at := client.Resource(resource)
	if namespace == "" {
		return plannable{at, client, resource, namespace}
	}
	return plannable{at.Namespace(namespace), client, resource, namespace}
}

// HasSynced reports whether the informer has the objects of the API server. A reconciler asks it where the source is
// optional (controller.WithOptional).
func (k *Handle[T]) HasSynced() bool { return k.informer.HasSynced() }

func (k *Handle[T]) synced() error {
	if k.HasSynced() {
		return nil
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the cache of %s has not synced: "+
		"start its informer and wait for it, or make it a source of the controller",
		kubeapi.ResourceName(k.resource)))
}

func (k *Handle[T]) notFound(key string) error {
	return apierrors.NewNotFound(k.resource.GroupResource(), key)
}

func newObject[T Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

func checkType[T Object]() error {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("the type of the objects must be a pointer to a struct, as *appsv1.Deployment, not %v", t)
	}
	return nil
}

// kindOfType is the Go type's name, which is the kind by the conventions of the Kubernetes API.
func kindOfType[T Object]() string {
	t := reflect.TypeFor[T]().Elem()
	if t == reflect.TypeFor[unstructured.Unstructured]() || t == reflect.TypeFor[metav1.PartialObjectMetadata]() {
		return ""
	}
	return t.Name()
}

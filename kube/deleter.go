package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// DeleteOption says how objects are deleted. It is for Deleter and WithDeletes.
type DeleteOption func(*resourceDeleter) error

// WithPropagation sets what becomes of the objects' dependents within Kubernetes, which name them in ownerReferences.
// Background, the default here, lets the garbage collector delete the dependents afterwards. Foreground keeps each
// object until its dependents are gone, and a teardown waits for that. Orphan leaves the dependents.
func WithPropagation(p metav1.DeletionPropagation) DeleteOption {
	return func(d *resourceDeleter) error {
		switch p {
		case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
			d.propagation = p
			return nil
		}
		return fmt.Errorf("WithPropagation(%q): want Background, Foreground or Orphan", p)
	}
}

// Deleter makes a deleter for objects of one resource, for controller.WithDeleter. It is for OwnsKube without a handle;
// a Handle's Owns has one already.
//
// It deletes only the object that was seen, by preconditions on uid and resourceVersion. If the object has changed
// since, it returns the conflict; the runtime calls it again with what the cache shows by then. If another object has
// the name by now, or the object is being deleted already, the delete has succeeded.
//
// What is wrong with the arguments is returned by controller.New, and by each Delete.
func Deleter(client dynamic.Interface, resource schema.GroupVersionResource, opts ...DeleteOption) controller.Deleter {
	d, err := newResourceDeleter(client, resource, opts)
	if err != nil {
		d = &resourceDeleter{resource: resource, invalid: err}
	}
	return d
}

type resourceDeleter struct {
	client      dynamic.Interface
	resource    schema.GroupVersionResource
	propagation metav1.DeletionPropagation
	invalid     error
}

// newResourceDeleter returns a deleter, and all that is wrong with its arguments in one error.
func newResourceDeleter(
	client dynamic.Interface, resource schema.GroupVersionResource, opts []DeleteOption,
) (*resourceDeleter, error) {
	d := &resourceDeleter{client: client, resource: resource, propagation: metav1.DeletePropagationBackground}
	var errs []error
	for _, opt := range opts {
		if opt != nil {
			errs = append(errs, opt(d))
		}
	}
	if guard.IsNil(client) || resource.Resource == "" || resource.Version == "" {
		errs = append(errs, fmt.Errorf("kube.Deleter(%s): a client, and a resource with its version are needed",
			kubeapi.ResourceName(resource)))
	}
	return d, errors.Join(errs...)
}

// Delete implements Deleter.
func (d *resourceDeleter) Delete(ctx context.Context, obj metav1.Object) error {
	if d.invalid != nil {
		return d.invalid
	}
	key, uid, version := source.ObjectKey(obj), obj.GetUID(), obj.GetResourceVersion()
	if uid == "" {
		return fmt.Errorf("delete %s %q: the object has no uid, "+
			"so it cannot be told from another one of that name: give one that was read",
			kubeapi.ResourceName(d.resource), key)
	}
	seen := &metav1.Preconditions{UID: &uid}
	if version != "" {
		seen.ResourceVersion = &version
	}
	at := resourceAt(d.client, d.resource, obj.GetNamespace())
	err := at.Delete(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: seen, PropagationPolicy: &d.propagation})
	unknown := kubeapi.UnknownResource(err) || obj.GetNamespace() == "" && kubeapi.WrongPath(err)
	if apierrors.IsNotFound(err) && !unknown {
		return nil
	}
	if !apierrors.IsConflict(err) {
		return kubeapi.Explain("delete", d.resource, key, err)
	}
	live, getErr := at.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(getErr) && !kubeapi.UnknownResource(getErr) {
		return nil
	}
	if getErr == nil && (live.GetUID() != uid || live.GetDeletionTimestamp() != nil) {
		return nil
	}
	return kubeapi.Explain("delete", d.resource, key, err)
}

// Mark implements kubesource.Marker.
func (d *resourceDeleter) Mark(
	ctx context.Context, obj metav1.Object, labels, annotations map[string]*string,
) error {
	if d.invalid != nil {
		return d.invalid
	}
	metadata := map[string]any{"uid": obj.GetUID(), "labels": labels, "annotations": annotations}
	if version := obj.GetResourceVersion(); version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("mark %s %q: %w", kubeapi.ResourceName(d.resource), source.ObjectKey(obj), err)
	}
	_, err = resourceAt(d.client, d.resource, obj.GetNamespace()).Patch(
		ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return kubeapi.Explain("mark", d.resource, source.ObjectKey(obj), err)
}

// Live implements kubesource.LiveReader.
func (d *resourceDeleter) Live(ctx context.Context, obj metav1.Object) (metav1.Object, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	at := resourceAt(d.client, d.resource, obj.GetNamespace())
	live, err := at.Get(ctx, obj.GetName(), metav1.GetOptions{})
	unknown := kubeapi.UnknownResource(err) || obj.GetNamespace() == "" && kubeapi.WrongPath(err)
	switch {
	case err == nil:
		return live, nil
	case apierrors.IsNotFound(err) && !unknown:
		return nil, nil
	}
	return nil, kubeapi.Explain("read", d.resource, source.ObjectKey(obj), err)
}

var (
	_ kubesource.Prober        = (*resourceDeleter)(nil)
	_ kubesource.LiveReader    = (*resourceDeleter)(nil)
	_ kubesource.ResourceNamer = (*resourceDeleter)(nil)
	_ kubesource.Validator     = (*resourceDeleter)(nil)
	_ kubesource.LiveOwner     = (*resourceDeleter)(nil)
	_ kubesource.Resourcer     = (*resourceDeleter)(nil)
	_ kubesource.Accessor      = (*resourceDeleter)(nil)
	_ kubesource.Marker        = (*resourceDeleter)(nil)
	_ kubesource.Clustered     = (*resourceDeleter)(nil)
)

// Validate returns what is wrong with how the deleter was made; nil if nothing is.
func (d *resourceDeleter) Validate() error { return d.invalid }

// ResourceName names the resource.
func (d *resourceDeleter) ResourceName() string { return kubeapi.ResourceName(d.resource) }

// GroupResource is the resource.
func (d *resourceDeleter) GroupResource() schema.GroupResource { return d.resource.GroupResource() }

// Cluster implements kubesource.Clustered.
func (d *resourceDeleter) Cluster() any { return clusterOf(d.client) }

// Access implements kubesource.Accessor.
func (d *resourceDeleter) Access() (resource schema.GroupVersionResource, verbs []string) {
	return d.resource, []string{"get", "delete"}
}

// Probe implements kubesource.Prober.
func (d *resourceDeleter) Probe(ctx context.Context, namespace, notOlderThan string) (version string, err error) {
	if d.invalid != nil {
		return "", nil
	}
	opts := metav1.ListOptions{Limit: 1, ResourceVersion: notOlderThan}
	if notOlderThan != "" {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := resourceAt(d.client, d.resource, namespace).List(ctx, opts)
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		// So it may be for an informer that looks into one namespace only, and then says nothing about that one.
		return "", fmt.Errorf("maybe because of missing rights: %w",
			kubeapi.Explain("list in all namespaces", d.resource, "", err))
	case err != nil:
		return "", kubeapi.Explain("list", d.resource, "", err)
	}
	return list.GetResourceVersion(), nil
}

// EachLive implements kubesource.Prober.
func (d *resourceDeleter) EachLive(
	ctx context.Context, namespace string, f func(metav1.Object),
) (version string, err error) {
	for opts := (metav1.ListOptions{Limit: listPage}); ; {
		list, err := resourceAt(d.client, d.resource, namespace).List(ctx, opts)
		if err != nil {
			return "", kubeapi.Explain("list", d.resource, "", err)
		}
		if version == "" { // that of the first page is that of all
			version = list.GetResourceVersion()
		}
		for i := range list.Items {
			f(&list.Items[i])
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return version, nil
		}
	}
}

// listPage is how many objects a page of a list has at most.
const listPage = 500

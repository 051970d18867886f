package kube

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// DeleteOption says how Kubernetes objects are deleted.
type DeleteOption func(*kubeDeleter) error

// WithPropagation sets what becomes of what the objects own within Kubernetes, by ownerReferences: Background, the default
// here, lets the garbage collector delete it after them; Foreground keeps each object until that is done, and a teardown
// waits for it; Orphan leaves it.
func WithPropagation(p metav1.DeletionPropagation) DeleteOption {
	return func(d *kubeDeleter) error {
		switch p {
		case metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
			d.propagation = p
			return nil
		}
		return fmt.Errorf("WithPropagation(%q): want Background, Foreground or Orphan", p)
	}
}

// Deleter makes a deleter of objects of one resource, for WithDeleter. It deletes what was seen and nothing else: with
// preconditions on uid and resourceVersion. If the object has changed since it returns the conflict, and is asked again with
// what the cache shows by then; if another object has its name by now, or it is being deleted already, the delete has
// succeeded. An error in the options is returned by each Delete, and by New.
func Deleter(client dynamic.Interface, resource schema.GroupVersionResource, opts ...DeleteOption) controller.Deleter {
	d, err := newKubeDeleter(client, resource, opts)
	if err != nil {
		d = &kubeDeleter{resource: resource, invalid: err}
	}
	return d
}

type kubeDeleter struct {
	client      dynamic.Interface
	resource    schema.GroupVersionResource
	propagation metav1.DeletionPropagation
	invalid     error
}

func newKubeDeleter(client dynamic.Interface, resource schema.GroupVersionResource, opts []DeleteOption) (*kubeDeleter, error) {
	d := &kubeDeleter{client: client, resource: resource, propagation: metav1.DeletePropagationBackground}
	var errs []error
	for _, opt := range opts {
		if opt != nil {
			errs = append(errs, opt(d))
		}
	}
	if guard.IsNil(client) || resource.Resource == "" || resource.Version == "" {
		errs = append(errs, fmt.Errorf("KubeDeleter(%s): a client, and a resource with its version are needed", kubeerrors.ResourceName(resource)))
	}
	return d, errors.Join(errs...)
}

// Delete implements Deleter.
func (d *kubeDeleter) Delete(ctx context.Context, obj metav1.Object) error {
	if d.invalid != nil {
		return d.invalid
	}
	key, uid, version := source.ObjectKey(obj), obj.GetUID(), obj.GetResourceVersion()
	if uid == "" {
		return fmt.Errorf("delete %s %q: the object has no uid, so it cannot be told from another one of that name: give one that was read",
			kubeerrors.ResourceName(d.resource), key)
	}
	seen := &metav1.Preconditions{UID: &uid}
	if version != "" {
		seen.ResourceVersion = &version
	}
	at := resourceAt(d.client, d.resource, obj.GetNamespace())
	err := at.Delete(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: seen, PropagationPolicy: &d.propagation})
	if apierrors.IsNotFound(err) && !kubeerrors.UnknownResource(err) {
		return nil
	}
	if !apierrors.IsConflict(err) {
		return kubeerrors.Explain("delete", d.resource, key, err)
	}
	live, getErr := at.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(getErr) && !kubeerrors.UnknownResource(getErr) {
		return nil
	}
	if getErr == nil && (live.GetUID() != uid || live.GetDeletionTimestamp() != nil) {
		return nil
	}
	return kubeerrors.Explain("delete", d.resource, key, err)
}

var (
	_ kubesource.ListProber    = (*kubeDeleter)(nil)
	_ kubesource.ResourceNamer = (*kubeDeleter)(nil)
	_ kubesource.Validator     = (*kubeDeleter)(nil)
	_ kubesource.LiveOwner     = (*kubeDeleter)(nil)
)

// Validate returns what is wrong with how the deleter was made; nil if nothing is.
func (d *kubeDeleter) Validate() error { return d.invalid }

// ResourceName names the resource.
func (d *kubeDeleter) ResourceName() string { return kubeerrors.ResourceName(d.resource) }

// WhyNotListed asks the API server why an informer over the resource does not sync; nil if it would.
func (d *kubeDeleter) WhyNotListed(ctx context.Context) error {
	if d.invalid != nil {
		return nil
	}
	_, err := d.client.Resource(d.resource).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		// So it may be for an informer that looks into one namespace only, and then says nothing about that one.
		return fmt.Errorf("maybe because of missing rights: %w", kubeerrors.Explain("list in all namespaces", d.resource, "", err))
	}
	return kubeerrors.Explain("list", d.resource, "", err)
}

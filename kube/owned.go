package kube

import (
	"cmp"
	"context"
	"slices"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

// OwnedLive lists by labels what a primary owns, of all who write it: one request, or one for each namespace.
func (d *resourceDeleter) OwnedLive(
	ctx context.Context, kind, key string, namespaces func() []string,
) ([]metav1.Object, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	objects, err := d.ownedIn(ctx, "", kind, key)
	if !apierrors.IsForbidden(err) {
		return objects, err
	}
	for _, namespace := range namespaces() {
		var more []metav1.Object
		if more, err = d.ownedIn(ctx, namespace, kind, key); err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, err
}

func (d *resourceDeleter) ownedIn(ctx context.Context, namespace, kind, key string) ([]metav1.Object, error) {
	selector := labels.SelectorFromSet(labels.Set{
		entity.OwnerKindLabel: entity.OwnerLabelValue(kind), entity.OwnerKeyLabel: entity.OwnerLabelValue(key),
	})
	list, err := resourceAt(d.client, d.resource, namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, kubeapi.Explain("list what "+kind+" "+key+" owns in", d.resource, "", err)
	}
	var objects []metav1.Object
	for i := range list.Items {
		if entity.IsOwnedBy(&list.Items[i], kind, key) {
			objects = append(objects, &list.Items[i])
		}
	}
	return objects, nil
}

// OwnedLive lists what a primary owns, and reads what the handle wrote, its cache never showed, and the list does not
// have: it may have lost its labels, or the list may be forbidden.
func (d handleDeleter[T]) OwnedLive(
	ctx context.Context, kind, key string, namespaces func() []string,
) ([]metav1.Object, error) {
	objects, refused := d.k.deleter.OwnedLive(ctx, kind, key, namespaces)
	if refused != nil && !apierrors.IsForbidden(refused) && !kubeapi.UnknownResource(refused) {
		return nil, refused
	}
	for _, name := range d.k.own.NotShown(kind, key) {
		listed := func(obj metav1.Object) bool { return source.ObjectKey(obj) == name }
		if slices.ContainsFunc(objects, listed) {
			continue
		}
		live, err := d.k.live(ctx, name)
		if kubeapi.UnknownResource(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if live == nil || !entity.IsOwnedBy(live, kind, key) {
			if dryrun.Of(ctx) == nil {
				d.k.own.Uncovered.Remove(name)
			}
			continue
		}
		objects = append(objects, live)
	}
	return objects, refused
}

// WrittenBy tells by the object's annotation, or by its managed fields, whether the handle has written it.
func (d handleDeleter[T]) WrittenBy(obj metav1.Object, controller string) bool {
	manager := cmp.Or(d.k.manager, controller)
	return obj.GetAnnotations()[AppliedHashAnnotation(manager)] != "" || writtenBy(obj, manager)
}

// noteUncovered is for an object that the API server has, is the reconciled primary's, and is not in a cache which has
// reached it. What a plan has is not there.
func (k *Handle[T]) noteUncovered(ctx context.Context, key string, live metav1.Object) {
	r, ok := reconcilectx.Of(ctx)
	if !ok || live == nil || dryrun.Of(ctx) != nil {
		return
	}
	primary := r.Primary()
	if !entity.IsOwnedBy(live, primary.Kind, primary.Key) || !r.MayDelete(live, k.proofs()) || !k.own.Lacks(key, live) {
		return
	}
	k.own.Uncovered.Add(key, primary.Owner)
	r.Uncovered()
	printable.Logger(klog.FromContext(ctx)).Error(nil, "The informer does not show what this primary owns: "+
		"let it cover the namespaces and labels of all that is written, or after a restart nothing will delete it",
		"resource", kubeapi.ResourceName(k.resource), "object", key)
}

package kube

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/owner"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

// OwnedLive lists by labels what a primary owns, of all who write it: one request. Where it may not be listed the cache
// alone has to tell.
func (d *resourceDeleter) OwnedLive(ctx context.Context, kind, key string) ([]metav1.Object, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	selector := labels.SelectorFromSet(labels.Set{
		entity.OwnerKindLabel: entity.OwnerLabelValue(kind), entity.OwnerKeyLabel: entity.OwnerLabelValue(key),
	})
	list, err := d.client.Resource(d.resource).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if apierrors.IsForbidden(err) || kubeerrors.UnknownResource(err) {
		return nil, nil
	}
	if err != nil {
		return nil, kubeerrors.Explain("list what "+kind+" "+key+" owns in", d.resource, "", err)
	}
	var objects []metav1.Object
	for i := range list.Items {
		if owner.OwnedBy(&list.Items[i], kind, key) {
			objects = append(objects, &list.Items[i])
		}
	}
	return objects, nil
}

// OwnedLive reads what the handle wrote and its cache never showed: no request where there is nothing. Where that was
// too much to remember it lists.
func (d handleDeleter[T]) OwnedLive(ctx context.Context, kind, key string) ([]metav1.Object, error) {
	names, all := d.k.own.notShown(kind, key)
	if !all {
		return d.k.deleter.OwnedLive(ctx, kind, key)
	}
	var objects []metav1.Object
	for _, name := range names {
		live, err := d.k.live(ctx, name)
		if kubeerrors.UnknownResource(err) {
			continue // the CustomResourceDefinition is gone, and with it all objects
		}
		if err != nil {
			return nil, err
		}
		if live == nil || !owner.OwnedBy(live, kind, key) {
			d.k.own.uncovered.remove(name)
			continue
		}
		objects = append(objects, live)
	}
	return objects, nil
}

// noteUncovered is for an object that the API server has, is the reconciled primary's, and is not in a cache which has
// reached it.
func (k *Handle[T]) noteUncovered(ctx context.Context, key string, live metav1.Object) {
	r, ok := current.Of(ctx)
	if !ok || live == nil {
		return
	}
	primary := r.Primary()
	if !owner.OwnedBy(live, primary.Kind, primary.Key) || !r.MayDelete(live) || !k.own.lacks(key, live) {
		return
	}
	k.own.uncovered.add(key, owner.Of(live))
	r.Uncovered()
	klog.FromContext(ctx).Error(nil, "The informer does not show what this primary owns: "+
		"let it cover the namespaces and labels of all that is written, or after a restart nothing will delete it",
		"resource", kubeerrors.ResourceName(k.resource), "object", key)
}

package controllerruntime

import (
	"context"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// A teardown that sees nothing more in the caches asks once more before it removes the anchor: after that nothing would ever
// delete what a cache was behind with, or does not cover.

// ownWriter knows what it wrote itself.
type ownWriter interface {
	// writtenLive are the objects of a primary that it wrote and the cache never showed; not all if they were too many to
	// remember.
	writtenLive(ctx context.Context, kind, key string) (objects []metav1.Object, all bool, err error)
}

// unseenObjects are what a primary owns and no cache shows. What is not known yet has been asked for, and the key is due when it
// is.
func (e *engine) unseenObjects(ctx context.Context, key string) (found []ownedObject, known bool, err error) {
	known = true
	for _, s := range e.ownedSources() {
		kube, ok := s.(*kubeSource)
		if !ok {
			continue
		}
		objects, answered, err := kube.unseenObjects(ctx, key)
		if err != nil {
			return nil, false, err
		}
		known = known && answered
		for _, obj := range objects {
			if e.mine(obj) {
				found = append(found, ownedObject{source: s, object: obj})
			}
		}
	}
	return found, known, nil
}

func (s *kubeSource) unseenObjects(ctx context.Context, key string) (objects []metav1.Object, known bool, err error) {
	if writer, ok := s.deleter.(ownWriter); ok {
		objects, all, err := writer.writtenLive(ctx, s.engine.kind, key)
		if all || err != nil {
			return objects, true, err
		}
	}
	if _, ok := s.deleter.(ownedLister); !ok {
		return nil, true, nil
	}
	return s.asked.ask(key)
}

// listOwned is one request. Where it may not be listed the cache alone has to tell.
func (d *kubeDeleter) listOwned(ctx context.Context, kind string, keys []string) (map[string][]metav1.Object, error) {
	if d.invalid != nil {
		return nil, d.invalid
	}
	values := sets.New[string]()
	for _, key := range keys {
		values.Insert(entity.OwnerLabelValue(key))
	}
	selector := fmt.Sprintf("%s=%s,%s in (%s)", OwnerkindLabel, entity.OwnerLabelValue(kind), OwnerKeyLabel, strings.Join(sets.List(values), ","))
	list, err := d.client.Resource(d.resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsForbidden(err) || unknownResource(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explainKube("list what primaries that are gone own in", d.resource, "", err)
	}
	found := map[string][]metav1.Object{}
	for i := range list.Items {
		if ownerKind, key, ok := OwnerOf(&list.Items[i]); ok && ownerKind == kind {
			found[key] = append(found[key], &list.Items[i])
		}
	}
	return found, nil
}

// writtenLive makes no request where there is nothing.
func (d kubeHandleDeleter[T]) writtenLive(ctx context.Context, kind, key string) (objects []metav1.Object, all bool, err error) {
	names, all := d.k.own.notShown(kind, key)
	if !all {
		return nil, false, nil
	}
	for _, name := range names {
		live, err := d.k.live(ctx, name)
		if unknownResource(err) {
			continue // the CustomResourceDefinition is gone, and with it all objects
		}
		if err != nil {
			return nil, false, err
		}
		if live == nil || !ownedBy(live, kind, key) {
			d.k.own.cover(name)
			continue
		}
		objects = append(objects, live)
	}
	return objects, true, nil
}

func (d kubeHandleDeleter[T]) listOwned(ctx context.Context, kind string, keys []string) (map[string][]metav1.Object, error) {
	return d.k.deleter.listOwned(ctx, kind, keys)
}

func ownedBy(obj metav1.Object, kind, key string) bool {
	ownerKind, ownerKey, ok := OwnerOf(obj)
	return ok && ownerKind == kind && ownerKey == key
}

// noteUncovered is for an object that the API server has, is the reconciled primary's, and is not in a cache which has
// reached it.
func (k *Kube[T]) noteUncovered(ctx context.Context, key string, live metav1.Object) {
	r, ok := reconcileOf(ctx)
	if !ok || live == nil || !ownedBy(live, r.engine.kind, r.req.Key) || !r.engine.mine(live) || !k.own.lacks(key, live) {
		return
	}
	k.own.uncover(key, ownerNamedBy(live))
	r.engine.stats.uncovered.Add(1)
	klog.FromContext(ctx).Error(nil, "The informer does not show what this primary owns: let it cover the namespaces and labels of all that is written, or after a restart nothing will delete it",
		"resource", resourceName(k.resource), "object", key)
}

package controllerruntime

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeOwner is the primary for which an object is written; the zero value is none.
type kubeOwner struct{ kind, key, instance string }

// ownerFor is the primary of a reconcile as an owner.
func ownerFor(p current.Primary) kubeOwner { return kubeOwner{p.Kind, p.Key, p.Instance} }

// ownerIn is the owner of what is written under ctx, and makes it obj's: the reconciled primary, else whom obj names.
func ownerIn(ctx context.Context, obj metav1.Object) kubeOwner {
	if r, ok := current.Of(ctx); ok {
		r.Primary().Own(obj)
	}
	return ownerNamedBy(obj)
}

func (o kubeOwner) set(obj metav1.Object) {
	if o != (kubeOwner{}) {
		entity.SetOwner(obj, o.kind, o.key, o.instance)
	}
}

func ownerNamedBy(obj metav1.Object) kubeOwner {
	kind, key, ok := OwnerOf(obj)
	if !ok {
		return kubeOwner{}
	}
	return kubeOwner{kind, key, entity.InstanceOf(obj)}
}

// mayWrite refuses what is not the owner's. An object is the owner's if its annotations say so, or, where somebody took
// them away, its labels, or if this process itself wrote this very object for it, or has seen that it was the owner's.
// Where nothing is to be owned, an object is ours that nobody owns and that our field manager has written.
func (k *Kube[T]) mayWrite(key string, owner kubeOwner, manager string, existing metav1.Object) error {
	named := ownerNamedBy(existing)
	if owner == (kubeOwner{}) {
		if named == owner && labelOwner(existing) == owner && writtenBy(existing, manager) {
			return nil
		}
		return k.exists(key, existing)
	}
	if named.allows(owner) {
		k.applied.owned(key, existing.GetUID(), owner)
		return nil
	}
	if named == (kubeOwner{}) {
		labels := labelOwner(existing)
		if labels == labelsOf(owner) {
			return nil
		}
		if last, ok := k.applied.of(key, existing.GetUID()); ok && last.owner == owner && labels == (kubeOwner{}) {
			return nil
		}
	}
	return k.exists(key, existing)
}

// allows tells whether what names o is owner's; what names no installation is nobody else's.
func (o kubeOwner) allows(owner kubeOwner) bool {
	return o.kind == owner.kind && o.key == owner.key && (o.instance == "" || o.instance == owner.instance)
}

// labelOwner is whom an object's labels name, by their values.
func labelOwner(obj metav1.Object) kubeOwner {
	labels := obj.GetLabels()
	return kubeOwner{labels[OwnerkindLabel], labels[OwnerKeyLabel], labels[OwnerInstanceLabel]}
}

func labelsOf(o kubeOwner) kubeOwner {
	labels := kubeOwner{entity.OwnerLabelValue(o.kind), entity.OwnerLabelValue(o.key), o.instance}
	if o.instance != "" {
		labels.instance = entity.OwnerLabelValue(o.instance)
	}
	return labels
}

func writtenBy(obj metav1.Object, manager string) bool {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == manager && entry.Subresource == "" {
			return true
		}
	}
	return false
}

func (k *Kube[T]) exists(key string, existing metav1.Object) *ResourceExistsError {
	named := ownerNamedBy(existing)
	err := &ResourceExistsError{
		Resource: k.resource, Key: key,
		OwnerKind: named.kind, OwnerKey: named.key, OwnerInstance: named.instance,
	}
	if ref := metav1.GetControllerOf(existing); ref != nil {
		err.Controller = ref.Kind + " " + ref.Name
	}
	return err
}

// awaitName has the reconciled primary wait until somebody's object has another owner or is gone. If that is news the
// caller has to look at the object once more.
func (k *Kube[T]) awaitName(ctx context.Context, object string) (news bool) {
	r, ok := current.Of(ctx)
	return ok && r.AwaitName(k.informer, object)
}

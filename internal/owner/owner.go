// Package owner compares the owners that objects name. A secondary names its primary in annotations, which hold the
// key itself, and in labels, which hold what fits into a label.
//
// The rule: annotations say who owns an object. Each label counts where its annotation was taken away; see [Named].
// An owner that is named without an installation is of every installation. What annotations and labels contradict each
// other about is not deleted; see [Claim].
package owner

import (
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is a primary as an object names it. The zero value is none.
type Owner struct{ Kind, Key, Instance string }

// Of returns the owner that obj names; none if it lacks the kind or the key, or has only a hash of one. See
// entity.OwnerOf.
func Of(obj metav1.Object) Owner {
	kind, key, ok := entity.OwnerOf(obj)
	if !ok {
		return Owner{}
	}
	return Owner{kind, key, entity.InstanceOf(obj)}
}

// IsNone reports whether o names no owner.
func (o Owner) IsNone() bool { return o == Owner{} }

// Own makes obj name o. None leaves obj as it is.
func (o Owner) Own(obj metav1.Object) {
	if !o.IsNone() {
		entity.SetOwner(obj, o.Kind, o.Key, o.Instance)
	}
}

// Changed reports whether an object names another owner than before, or has another controller in Kubernetes.
func Changed(before, after metav1.Object) bool {
	if marks(before) != marks(after) {
		return true
	}
	was, is := metav1.GetControllerOfNoCopy(before), metav1.GetControllerOfNoCopy(after)
	return (was == nil) != (is == nil) || was != nil && was.UID != is.UID
}

// marks are all labels and annotations of an object that name its owner.
func marks(obj metav1.Object) [6]string {
	annotations, labels := obj.GetAnnotations(), obj.GetLabels()
	return [...]string{
		annotations[entity.OwnerKindAnnotation], annotations[entity.OwnerKeyAnnotation],
		annotations[entity.OwnerInstanceAnnotation],
		labels[entity.OwnerKindLabel], labels[entity.OwnerKeyLabel], labels[entity.OwnerInstanceLabel],
	}
}

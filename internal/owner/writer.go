package owner

import (
	"maps"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WriterOf returns the status bucket of the controller that wrote obj for its owner; "" if obj does not tell: an older
// version wrote it, or a writer by other means than the helpers.
func WriterOf(obj metav1.Object) string {
	return obj.GetAnnotations()[entity.OwnerStatusBucketAnnotation]
}

// SetWriter makes obj name the controller that writes it. "" leaves obj as it is. SetWriter replaces the map and never
// changes it.
func SetWriter(obj metav1.Object, statusBucket string) {
	held := obj.GetAnnotations()
	if statusBucket == "" || held[entity.OwnerStatusBucketAnnotation] == statusBucket {
		return
	}
	annotations := make(map[string]string, len(held)+1)
	maps.Copy(annotations, held)
	annotations[entity.OwnerStatusBucketAnnotation] = statusBucket
	obj.SetAnnotations(annotations)
}

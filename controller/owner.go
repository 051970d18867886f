package controller

import (
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels and annotations by which a secondary names its primary, in NATS and in Kubernetes alike. The annotation
// holds the key itself; the label holds it where it is a valid label value, else a stable hash.
const (
	OwnerkindLabel          = entity.OwnerKindLabel
	OwnerKeyLabel           = entity.OwnerKeyLabel
	OwnerkindAnnotation     = entity.OwnerKindAnnotation
	OwnerKeyAnnotation      = entity.OwnerKeyAnnotation
	OwnerInstanceLabel      = entity.OwnerInstanceLabel
	OwnerInstanceAnnotation = entity.OwnerInstanceAnnotation
)

// Annotations of a primary's document.
const (
	// SuspendAnnotation with the value "true" keeps the runtime from reconciling the document until it is taken away. A
	// suspended primary that is deleted is torn down like any other: with the document its suspension is gone too.
	SuspendAnnotation = entity.SuspendAnnotation
	// DeletionPolicyAnnotation with the value DeletionPolicyOrphan leaves what the primary owns when it goes.
	DeletionPolicyAnnotation = entity.DeletionPolicyAnnotation
	DeletionPolicyOrphan     = entity.DeletionPolicyOrphan
)

// OwnerOf returns the kind and key of the primary that obj names as its owner; ok is false if it names none.
func OwnerOf(obj metav1.Object) (kind, key string, ok bool) { return entity.OwnerOf(obj) }

package entity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// IEntity is a type that can live in a bucket: an ordinary Kubernetes-shaped object.
type IEntity interface {
	runtime.Object
	metav1.Object
}

// None fills a type parameter that is not used. NewClient refuses it, so no bucket holds one.
type None struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

var _ IEntity = (*None)(nil)

// DeepCopyObject returns a copy.
func (n *None) DeepCopyObject() runtime.Object {
	if n == nil {
		return nil
	}
	out := &None{TypeMeta: n.TypeMeta}
	n.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

package entity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a ready-made entity for users without generated types:
//
//	type Website = entity.Object[WebsiteSpec, WebsiteStatus]
//
// Use it as *Website. Do not embed it in another struct: the outer type would inherit a DeepCopyObject that returns the
// inner one, and NewClient refuses such a type.
//
// Copies are deep for everything that exported fields reach. A Spec, a Status, or a type inside them, is copied by its
// DeepCopyInto or DeepCopy method if it has one, and a number of math/big with all its digits. A type that hides memory
// behind unexported fields and makes JSON of it by its own methods is copied through JSON: give it a DeepCopyInto if
// that is too slow. Unexported fields of other types are copied by assignment.
type Object[Spec, Status any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

var _ IEntity = (*Object[struct{}, struct{}])(nil)

// DeepCopyObject returns an *Object[Spec, Status].
func (o *Object[Spec, Status]) DeepCopyObject() runtime.Object {
	if o == nil {
		return nil
	}
	return o.DeepCopy()
}

// DeepCopy returns a copy that shares no memory with the original.
func (o *Object[Spec, Status]) DeepCopy() *Object[Spec, Status] {
	if o == nil {
		return nil
	}
	out := &Object[Spec, Status]{}
	o.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies into out, which must not be nil.
func (o *Object[Spec, Status]) DeepCopyInto(out *Object[Spec, Status]) {
	out.TypeMeta = o.TypeMeta
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	copyInto(&o.Spec, &out.Spec)
	copyInto(&o.Status, &out.Status)
}

package owner

import (
	"maps"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Prove gives obj the proof of the owner that its annotations name. It replaces the annotations and never changes
// them. In an unknown place nothing can be proven; then a proof stays, which may be true. Without secrets obj has none
// afterwards.
func Prove(obj metav1.Object, by *Secrets, in Resource) {
	held := obj.GetAnnotations()
	if by == nil {
		if _, proven := held[entity.OwnerProofAnnotation]; proven {
			rest := maps.Clone(held)
			delete(rest, entity.OwnerProofAnnotation)
			obj.SetAnnotations(rest)
		}
		return
	}
	o := Of(obj)
	if o.IsNone() || in.IsUnknown() || !in.HasProofs() {
		return
	}
	proof := by.Sign(subject(o, in, obj))
	if held[entity.OwnerProofAnnotation] == proof {
		return
	}
	annotations := make(map[string]string, len(held)+1)
	maps.Copy(annotations, held)
	annotations[entity.OwnerProofAnnotation] = proof
	obj.SetAnnotations(annotations)
}

func subject(o Owner, in Resource, obj metav1.Object) Subject {
	return Subject{
		In: in, Kind: o.Kind, Key: o.Key, Instance: o.Instance, Namespace: obj.GetNamespace(), Name: obj.GetName(),
	}
}

// IsProven reports whether proofs are wanted, and obj carries a valid one of its owner. It does not where annotations
// were taken off, so that the key of the owner is not known.
func (c Claim) IsProven(obj metav1.Object) bool {
	key, _ := NamedBy(obj).Key()
	return c.Proofs != nil && key != "" && c.Instance != "" &&
		c.Proofs.Verify(subject(Owner{c.Kind, key, c.Instance}, c.resource, obj), proofOf(obj))
}

// IsProvenByOlder reports whether the proof of obj, which is valid, was made by a secret that no longer signs.
func (c Claim) IsProvenByOlder(obj metav1.Object) bool {
	return c.Proofs != nil && c.resource.HasProofs() && c.Proofs.IsOlder(proofOf(obj))
}

func proofOf(obj metav1.Object) string { return obj.GetAnnotations()[entity.OwnerProofAnnotation] }

// lacksProof reports whether obj needs a proof that it does not carry.
func (c Claim) lacksProof(obj metav1.Object) bool {
	return c.Proofs != nil && c.resource.HasProofs() && !c.IsProven(obj)
}

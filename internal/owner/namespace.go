package owner

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rule about namespaces: an object and the owner that it names are in the same one. Otherwise who may write in one
// namespace could have a primary of another one reconciled, or an object of his deleted with it. What has no namespace
// is outside of the rule: a primary whose bucket is not Namespaced, a secondary in such a bucket or behind an API, and
// a Kubernetes object of the cluster. The user of a source may open it.

// Source is where objects are that name owners.
type Source interface {
	// Resource is what proofs of ownership call the place.
	Resource() Resource
	// AnyNamespace reports whether the objects may name owners in other namespaces.
	AnyNamespace() bool
}

// In returns the claim on the objects of a source.
func (c Claim) In(s Source) Claim {
	c.anyNamespace = s.AnyNamespace()
	return c.At(s.Resource())
}

// Crosses reports whether obj names the owner with that key from another namespace, and may not. Then it has no owner:
// its events make no primary due, and nothing deletes it.
func (c Claim) Crosses(obj metav1.Object, key string) bool {
	return !c.anyNamespace && Crosses(obj.GetNamespace(), key)
}

// Owns reports whether obj is for certain the primary's with that key, which obj names.
func (c Claim) Owns(obj metav1.Object, key string) bool {
	return c.MayDelete(obj) && !c.Crosses(obj, key)
}

// IsOwned reports whether obj is for certain the primary's that it names.
func (c Claim) IsOwned(obj metav1.Object) bool {
	key, _ := NamedBy(obj).Key()
	return c.Owns(obj, key)
}

// Crosses reports whether something in a namespace and the primary with that key are in two namespaces.
func Crosses(namespace, key string) bool {
	of, _, namespaced := strings.Cut(key, "/")
	return namespaced && namespace != "" && namespace != of
}

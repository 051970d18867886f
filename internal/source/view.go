package source

import (
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Presence is what the cache knows of whether a primary exists.
type Presence uint8

// A primary that is Invalid exists. Of one that is Arriving the informer has read the document, and its event is on
// the way to the store.
const (
	Absent Presence = iota
	Present
	Invalid
	Arriving
)

// View is what the cache knows of a primary. The object must not be modified; it is nil where there is none that
// decodes.
type View struct {
	Presence Presence
	Revision uint64
	Object   metav1.Object
	Refused  uint64                   // the revision that does not decode, of one that is Invalid
	Why      error                    // it does not decode
	Warned   *entity.DocumentWarnings // about the revision; nil: none
	Expires  string                   // as in the record; "" also where the client does not know it any more
}

// IsComing tells whether the document exists, and the cache has yet to get it: as an event, or because it belonged to a
// key of another replica.
func (v View) IsComing() bool {
	return v.Presence == Arriving || v.Presence == Present && v.Object == nil
}

// Suspended tells whether the document asks not to be reconciled.
func (v View) Suspended() bool {
	return v.Object != nil && v.Object.GetAnnotations()[entity.SuspendAnnotation] == "true"
}

// askedOfRuntime tells whether what the document asks of the runtime has changed. That is no business of predicates.
func askedOfRuntime(before, after metav1.Object) bool {
	old, now := before.GetAnnotations(), after.GetAnnotations()
	return old[entity.DeletionPolicyAnnotation] != now[entity.DeletionPolicyAnnotation] ||
		old[entity.SuspendAnnotation] != now[entity.SuspendAnnotation]
}

// longestPolicy is more than any deletion policy has. What a document says goes into its record.
const longestPolicy = 64

// DeletionPolicy is what a document says is to become of what its primary owns.
func DeletionPolicy(document metav1.Object) string {
	policy := document.GetAnnotations()[entity.DeletionPolicyAnnotation]
	return policy[:min(len(policy), longestPolicy)]
}

// CheckIndex returns an error if the client of the primaries has no index of that name.
func (s *Primary[T]) CheckIndex(name string) error { return s.port.CheckIndex(name) }

// KeysByIndex returns the keys of primaries that the cache has under a value of an index, own writes included.
func (s *Primary[T]) KeysByIndex(name, value string) ([]string, error) {
	return s.port.KeysByIndex(name, value)
}

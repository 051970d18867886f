package source

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Predicate decides which events of a source reach the queue. The cache always sees all of them. A predicate must
// not modify the objects; a panic in it is logged and lets the event pass, because to lose one would be worse.
type Predicate interface {
	Create(obj metav1.Object) bool
	Update(oldObj, newObj metav1.Object) bool
	Delete(obj metav1.Object) bool
}

// Predicates lets an event pass if every predicate does.
type Predicates []Predicate

// Create implements Predicate.
func (a Predicates) Create(obj metav1.Object) bool {
	for _, p := range a {
		if !p.Create(obj) {
			return false
		}
	}
	return true
}

// Update implements Predicate.
func (a Predicates) Update(oldObj, newObj metav1.Object) bool {
	for _, p := range a {
		if !p.Update(oldObj, newObj) {
			return false
		}
	}
	return true
}

// Delete implements Predicate.
func (a Predicates) Delete(obj metav1.Object) bool {
	for _, p := range a {
		if !p.Delete(obj) {
			return false
		}
	}
	return true
}

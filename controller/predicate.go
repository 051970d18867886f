package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Predicate decides which events of a source reach the queue; true lets an event pass. The cache sees all events. A
// predicate must not modify the objects, and may be called concurrently. A panic in it is logged and lets the event
// pass, because to lose one would be worse.
type Predicate interface {
	Create(obj metav1.Object) bool
	Update(oldObj, newObj metav1.Object) bool
	Delete(obj metav1.Object) bool
}

// PredicateFuncs is a Predicate made of functions. A nil function lets every event of its kind pass, so the zero value
// lets all pass.
type PredicateFuncs struct {
	CreateFunc func(obj metav1.Object) bool
	UpdateFunc func(oldObj, newObj metav1.Object) bool
	DeleteFunc func(obj metav1.Object) bool
}

// Create implements Predicate.
func (p PredicateFuncs) Create(obj metav1.Object) bool {
	return p.CreateFunc == nil || p.CreateFunc(obj)
}

// Update implements Predicate.
func (p PredicateFuncs) Update(oldObj, newObj metav1.Object) bool {
	return p.UpdateFunc == nil || p.UpdateFunc(oldObj, newObj)
}

// Delete implements Predicate.
func (p PredicateFuncs) Delete(obj metav1.Object) bool {
	return p.DeleteFunc == nil || p.DeleteFunc(obj)
}

// ObjectPredicate applies f to one object of each event: the new one of an update, the last known one of a delete.
func ObjectPredicate(f func(obj metav1.Object) bool) Predicate {
	return PredicateFuncs{
		CreateFunc: f,
		UpdateFunc: func(_, newObj metav1.Object) bool { return f(newObj) },
		DeleteFunc: f,
	}
}

// LabelPredicate lets an event pass if its object matches the selector. For an update the old or the new object must
// match.
func LabelPredicate(selector labels.Selector) Predicate {
	matches := func(obj metav1.Object) bool { return selector.Matches(labels.Set(obj.GetLabels())) }
	return PredicateFuncs{
		CreateFunc: matches,
		UpdateFunc: func(oldObj, newObj metav1.Object) bool { return matches(oldObj) || matches(newObj) },
		DeleteFunc: matches,
	}
}

// Or lets an event pass if one of the predicates does; none passes without predicates. Several WithPredicate options
// are an And.
func Or(predicates ...Predicate) Predicate { return anyOf(predicates) }

type anyOf []Predicate

func (a anyOf) Create(obj metav1.Object) bool {
	for _, p := range a {
		if p.Create(obj) {
			return true
		}
	}
	return false
}

func (a anyOf) Update(oldObj, newObj metav1.Object) bool {
	for _, p := range a {
		if p.Update(oldObj, newObj) {
			return true
		}
	}
	return false
}

func (a anyOf) Delete(obj metav1.Object) bool {
	for _, p := range a {
		if p.Delete(obj) {
			return true
		}
	}
	return false
}

// Not lets an event pass if p does not.
func Not(p Predicate) Predicate {
	return PredicateFuncs{
		CreateFunc: func(obj metav1.Object) bool { return !p.Create(obj) },
		UpdateFunc: func(oldObj, newObj metav1.Object) bool { return !p.Update(oldObj, newObj) },
		DeleteFunc: func(obj metav1.Object) bool { return !p.Delete(obj) },
	}
}

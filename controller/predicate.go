package controller

import (
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/guard"
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

// And lets an event pass if each of the predicates does; all pass without predicates. Several WithPredicate options are
// an And, too.
func And(predicates ...Predicate) Predicate { return combined{of: predicates, all: true} }

// Or lets an event pass if one of the predicates does; none passes without predicates.
func Or(predicates ...Predicate) Predicate { return combined{of: predicates} }

// combined asks its predicates one after the other, until one decides.
type combined struct {
	of  []Predicate
	all bool // of them must let an event pass, instead of one
}

func (c combined) Create(obj metav1.Object) bool {
	return c.ask(func(p Predicate) bool { return p.Create(obj) })
}

func (c combined) Update(oldObj, newObj metav1.Object) bool {
	return c.ask(func(p Predicate) bool { return p.Update(oldObj, newObj) })
}

func (c combined) Delete(obj metav1.Object) bool {
	return c.ask(func(p Predicate) bool { return p.Delete(obj) })
}

func (c combined) ask(passes func(Predicate) bool) bool {
	for _, p := range c.of {
		if passes(p) != c.all {
			return !c.all
		}
	}
	return c.all
}

func (c combined) isNil() bool { return slices.ContainsFunc(c.of, isNilPredicate) }

func (c combined) objectTypes() []reflect.Type { return typesOf(c.of...) }

// Not lets an event pass if p does not.
func Not(p Predicate) Predicate { return not{p} }

type not struct{ p Predicate }

func (n not) Create(obj metav1.Object) bool            { return !n.p.Create(obj) }
func (n not) Update(oldObj, newObj metav1.Object) bool { return !n.p.Update(oldObj, newObj) }
func (n not) Delete(obj metav1.Object) bool            { return !n.p.Delete(obj) }
func (n not) isNil() bool                              { return isNilPredicate(n.p) }
func (n not) objectTypes() []reflect.Type              { return typesOf(n.p) }

// isNilPredicate also sees one that And, Or or Not was given.
func isNilPredicate(p Predicate) bool {
	if guard.IsNil(p) {
		return true
	}
	of, combines := p.(interface{ isNil() bool })
	return combines && of.isNil()
}

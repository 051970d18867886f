package controller

import (
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TypedPredicate is a Predicate made of functions of the type of the source's objects. A nil function lets every event
// of its kind pass. New refuses it for a source of entities of another type. In a Kubernetes source an object of
// another type is logged, and its event passes.
type TypedPredicate[T metav1.Object] struct {
	CreateFunc func(obj T) bool
	UpdateFunc func(oldObj, newObj T) bool
	DeleteFunc func(obj T) bool
}

// Create implements Predicate.
func (p TypedPredicate[T]) Create(obj metav1.Object) bool {
	return p.CreateFunc == nil || p.CreateFunc(as[T](obj))
}

// Update implements Predicate.
func (p TypedPredicate[T]) Update(oldObj, newObj metav1.Object) bool {
	return p.UpdateFunc == nil || p.UpdateFunc(as[T](oldObj), as[T](newObj))
}

// Delete implements Predicate.
func (p TypedPredicate[T]) Delete(obj metav1.Object) bool {
	return p.DeleteFunc == nil || p.DeleteFunc(as[T](obj))
}

// TypedObjectPredicate applies f to one object of each event: the new one of an update, the last known one of a delete.
func TypedObjectPredicate[T metav1.Object](f func(obj T) bool) Predicate {
	if f == nil {
		return nil // as no predicate is refused
	}
	return TypedPredicate[T]{
		CreateFunc: f,
		UpdateFunc: func(_, newObj T) bool { return f(newObj) },
		DeleteFunc: f,
	}
}

// as panics for an object of another type; the caller of a predicate logs that, and lets the event pass.
func as[T metav1.Object](obj metav1.Object) T {
	typed, ok := obj.(T)
	if !ok {
		panic(fmt.Sprintf("the predicate is for objects of type %v, its source has a %T", reflect.TypeFor[T](), obj))
	}
	return typed
}

func (TypedPredicate[T]) objectTypes() []reflect.Type { return []reflect.Type{reflect.TypeFor[T]()} }

// typed is a predicate that is for objects of these types.
type typed interface{ objectTypes() []reflect.Type }

func typesOf(predicates ...Predicate) (types []reflect.Type) {
	for _, p := range predicates {
		if p, ok := p.(typed); ok {
			types = append(types, p.objectTypes()...)
		}
	}
	return types
}

// fit refuses predicates that are for other objects than those of a source.
func fit(objects reflect.Type, predicates source.Predicates) error {
	for _, p := range predicates {
		for _, t := range typesOf(p) {
			if !objects.AssignableTo(t) {
				return fmt.Errorf("the predicate is for objects of type %v, and those of the source are %v", t, objects)
			}
		}
	}
	return nil
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ObjectReconciler is a Reconciler that is given the primary instead of its key. ForObject makes one. It is given to
// New as it is: one that another Reconciler calls does not know where to read, and fails.
type ObjectReconciler[T entity.IEntity] struct {
	reconcile func(ctx context.Context, obj T) (Result, error)
	deleted   func(ctx context.Context, last T) (Result, error)
	onError   func(ctx context.Context, obj T, err error) error

	of *Controller[T] // nil until New has it
}

// ForObject makes a Reconciler of a function that is given the primary, as the cache has it, with its status: a copy,
// which it may change, for CreateOrUpdate or SetStatus. It is not called for a primary that is gone. What that owned
// goes all the same; what the runtime does not know of is for WhenDeleted. The function is not given the operations of
// the Request.
func ForObject[T entity.IEntity](reconcile func(ctx context.Context, obj T) (Result, error)) *ObjectReconciler[T] {
	return &ObjectReconciler[T]{reconcile: reconcile}
}

// WhenDeleted has f take away what a primary that is gone leaves and the runtime does not know of; then the runtime
// deletes what it owned. last is the document as it was reconciled or deleted last, without its secret fields after a
// restart. Where it was too large to keep (entity.Config.LastDocumentLimit) the attempts fail, and f is not called.
func (r *ObjectReconciler[T]) WhenDeleted(f func(ctx context.Context, last T) (Result, error)) *ObjectReconciler[T] {
	r.deleted = f
	return r
}

// OnError has f say what becomes of an error of the reconciler. It returns the error with a mark or another text:
// TerminalError(err) for no more attempts by itself, RetryAfter(err, d) for the next one after d, and err for backoff.
// The attempt has failed even if f returns nil. obj is what the reconciler was given, as it has left it.
func (r *ObjectReconciler[T]) OnError(f func(ctx context.Context, obj T, err error) error) *ObjectReconciler[T] {
	r.onError = f
	return r
}

// Reconcile implements Reconciler.
func (r *ObjectReconciler[T]) Reconcile(ctx context.Context, req Request) (Result, error) {
	if r.of == nil {
		return Result{}, TerminalError(fmt.Errorf("ForObject[%v] does not know where to read %s: give it to New itself",
			reflect.TypeFor[T](), req.Key))
	}
	call := r.reconcile
	obj, err := r.of.client.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		if r.deleted == nil || !req.Operations.Gone() {
			return Result{}, nil // the event of its delete comes, or is owed
		}
		call = r.deleted
		obj, err = engine.LastDeleted(ctx, r.of.engine, r.of.client, req.Key)
	}
	if apierrors.IsNotFound(err) {
		return Result{}, nil // nothing is known that it has left
	}
	if err != nil {
		return Result{}, err
	}
	result, err := call(ctx, obj)
	if err != nil && r.onError != nil {
		if marked := r.onError(ctx, obj, err); marked != nil {
			err = marked
		}
	}
	return result, err
}

// bound gives an ObjectReconciler its controller; other reconcilers stay as they are.
func (c *Controller[T]) bound(r Reconciler) (Reconciler, error) {
	of, is := r.(interface{ objectTypes() []reflect.Type })
	if !is || guard.IsNil(r) {
		return r, nil
	}
	mine, is := r.(*ObjectReconciler[T])
	switch {
	case !is:
		return nil, fmt.Errorf("ForObject is for %v, and the primaries are %v",
			of.objectTypes()[0], reflect.TypeFor[T]())
	case mine.reconcile == nil:
		return nil, errors.New("ForObject(nil): a function is needed")
	}
	bound := *mine
	bound.of = c
	return &bound, nil
}

func (r *ObjectReconciler[T]) objectTypes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[T]()}
}

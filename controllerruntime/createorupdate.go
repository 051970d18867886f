package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperationResult says what CreateOrUpdate did.
type OperationResult string

// The results of CreateOrUpdate.
const (
	OperationResultNone    OperationResult = "unchanged"
	OperationResultCreated OperationResult = "created"
	OperationResultUpdated OperationResult = "updated"
)

// CreateOrUpdate makes the entity named by obj's name and namespace what mutate makes of it. mutate is given the entity
// as it is, in obj, or obj as it came if there is none; it sets what should be and leaves the rest. Inside a reconcile the
// reconciled primary becomes the owner; an entity that another primary owns is an *AlreadyOwnedError, because two owners would
// undo each other's work for ever. Nothing is written when nothing changed; status is not looked at and not written.
//
// It reads from the cache, which shows this process's own writes. If the write then finds that somebody else was faster,
// it reads live and tries again, so mutate may be called more than once. On an error obj is undefined.
func CreateOrUpdate[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error) (OperationResult, error) {
	key := source.ObjectKey(obj)
	template := obj.DeepCopyObject().(T)
	result, err := createOrUpdate(ctx, client, obj, client.Lister().Get, mutate)
	for range record.MaxConflicts {
		if _, overtaken := errors.AsType[*overtakenError](err); !overtaken {
			break
		}
		assign(obj, template.DeepCopyObject().(T))
		live := func(key string) (T, error) { return client.Get(ctx, key) }
		result, err = createOrUpdate(ctx, client, obj, live, mutate)
	}
	if err != nil {
		return OperationResultNone, fmt.Errorf("create or update %s %q: %w", client.Kind(), key, err)
	}
	return result, nil
}

func createOrUpdate[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], obj T, get func(string) (T, error), mutate func(T) error) (OperationResult, error) {
	key := source.ObjectKey(obj)
	before, err := get(key)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return OperationResultNone, err
	}
	if exists {
		assign(obj, before)
		before = before.DeepCopyObject().(T)
	}
	if err := mutate(obj); err != nil {
		return OperationResultNone, fmt.Errorf("mutate: %w", err)
	}
	if source.ObjectKey(obj) != key {
		return OperationResultNone, fmt.Errorf("mutate must not change name or namespace, it made %q of %q", source.ObjectKey(obj), key)
	}
	if reconcile, ok := reconcileOf(ctx); ok {
		if exists {
			if err := reconcile.engine.mayOwn(before, reconcile.req.Key); err != nil {
				return OperationResultNone, err
			}
		}
		reconcile.engine.setOwner(obj, reconcile.req.Key)
	}
	if !exists {
		return OperationResultCreated, overtaken(client.Create(ctx, obj))
	}
	same, err := sameDocument(before, obj)
	if err != nil || same {
		return OperationResultNone, err
	}
	return OperationResultUpdated, overtaken(client.Update(ctx, obj))
}

// AlreadyOwnedError says that a primary wanted to own what another one owns, maybe of another installation.
type AlreadyOwnedError struct {
	Object                                string // its key
	OwnerKind, OwnerKey, OwnerInstance    string
	WantedKind, WantedKey, WantedInstance string
}

// Error says who owns the object, and what to do.
func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("%q is owned by %s %q of installation %q already, so %s %q of installation %q cannot own it: use another name, or take its owner annotations away",
		e.Object, e.OwnerKind, e.OwnerKey, e.OwnerInstance, e.WantedKind, e.WantedKey, e.WantedInstance)
}

// mayOwn refuses what somebody else owns. What nobody owns may be adopted, and so may what names no installation.
func (e *engine) mayOwn(obj metav1.Object, key string) error {
	kind, owner, owned := OwnerOf(obj)
	instance := entity.InstanceOf(obj)
	if !owned || kind == e.kind && owner == key && (instance == "" || instance == e.instanceID()) {
		return nil
	}
	return &AlreadyOwnedError{
		Object: source.ObjectKey(obj), OwnerKind: kind, OwnerKey: owner, OwnerInstance: instance,
		WantedKind: e.kind, WantedKey: key, WantedInstance: e.instanceID(),
	}
}

// overtakenError is a write that found another state than was read. Only then is it worth to read again: mutate may return
// a conflict too, of something else.
type overtakenError struct{ error }

func (e *overtakenError) Unwrap() error { return e.error }

func overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return &overtakenError{err}
	}
	return err
}

// assign overwrites what dst points to.
func assign[T entity.IEntity](dst, src T) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(src).Elem())
}

// sameDocument compares everything but the status.
func sameDocument(a, b any) (bool, error) {
	if reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) { // the first is quicker, and mostly says it
		return true, nil
	}
	documents := [2]map[string]any{}
	for i, obj := range []any{a, b} {
		data, err := json.Marshal(obj)
		if err != nil {
			return false, fmt.Errorf("encode: %w", err)
		}
		if err := json.Unmarshal(data, &documents[i]); err != nil {
			return false, fmt.Errorf("encode: %w", err)
		}
		delete(documents[i], "status")
	}
	return reflect.DeepEqual(documents[0], documents[1]), nil
}

package secondary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/conflict"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownerproof"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Result says what CreateOrUpdate did. It is "unchanged" with each error.
type Result string

// The results of CreateOrUpdate.
const (
	Unchanged Result = "unchanged"
	Created   Result = "created"
	Updated   Result = "updated"
)

// CreateOrUpdate is that of package controller.
func CreateOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error,
) (Result, error) {
	key := source.ObjectKey(obj)
	if r, ok := current.Of(ctx); ok {
		place := source.Place{Bucket: client.Config().Bucket}
		if err := r.MayOwn(place, key); err != nil {
			return Unchanged, fmt.Errorf("create or update %s %q: %w", client.Kind(), key, err)
		}
		r.Want(place, key)
	}
	template := obj.DeepCopyObject().(T)
	result, err := createOrUpdate(ctx, client, obj, readCached, mutate)
	for tries := 0; conflict.Is(err) && conflict.Pause(ctx, tries); tries++ {
		conflict.Assign(obj, template.DeepCopyObject().(T))
		result, err = createOrUpdate(ctx, client, obj, readLive, mutate)
	}
	if err != nil {
		return Unchanged, fmt.Errorf("create or update %s %q: %w", client.Kind(), key, err)
	}
	return result, nil
}

type readFrom bool

const (
	readCached readFrom = false
	readLive   readFrom = true
)

func createOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, from readFrom, mutate func(T) error,
) (Result, error) {
	key := source.ObjectKey(obj)
	before, err := readToUpdate(ctx, client, key, from)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return Unchanged, err
	}
	if exists {
		conflict.Assign(obj, before)
		before = before.DeepCopyObject().(T)
	}
	if err := mutate(obj); err != nil {
		return Unchanged, fmt.Errorf("mutate: %w", err)
	}
	if source.ObjectKey(obj) != key {
		return Unchanged, fmt.Errorf("mutate must not change name or namespace, it made %q of %q",
			source.ObjectKey(obj), key)
	}
	if exists {
		entity.KeepMarks(before, obj)
	}
	late := func() {} // a stamp that is missing is no reason to write
	if r, ok := current.Of(ctx); ok {
		primary := r.Primary()
		primary.Owner.Own(obj)
		r.Prove(obj, ownerproof.Bucket(client.Config().Bucket)) // one that is missing, or older, is a reason to write
		switch {
		case !exists:
			primary.Stamp.Set(obj)
		case owner.StampOf(before).IsNone() && primary.Stamp.ContestedFrom == 0:
			late = func() { primary.Stamp.Set(obj) }
		default:
			primary.StampOver(before).Set(obj)
		}
	}
	if !exists {
		return Created, conflict.Of(client.Create(ctx, obj))
	}
	same, err := sameDocument(before, obj)
	if err != nil || same {
		return Unchanged, err
	}
	late()
	return Updated, conflict.Of(client.Update(ctx, obj))
}

// readToUpdate returns the entity if it may be changed under ctx. It asks the leader before it refuses, since the cache
// may be behind.
func readToUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], key string, from readFrom,
) (T, error) {
	if from == readCached {
		cached, err := client.Lister().Get(key)
		if err != nil || mayUpdate(ctx, client.Kind(), cached) == nil {
			return cached, err
		}
	}
	live, err := client.Get(ctx, key)
	if err != nil {
		return live, err
	}
	err = mayUpdate(ctx, client.Kind(), live)
	if exists, ok := errors.AsType[*ResourceExistsError](err); ok {
		current.WarnResourceExists(ctx, exists.Key)
	}
	return live, err
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

package secondary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Result says what CreateOrUpdate did. It is "unchanged" with each error.
type Result string

// The results of CreateOrUpdate.
const (
	Unchanged Result = "unchanged"
	Created   Result = "created"
	Updated   Result = "updated"
)

// CreateOrUpdate is CreateOrUpdateWith of package controller.
func CreateOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error, options Options,
) (Result, error) {
	key, template := source.ObjectKey(obj), mergediff.CopyOf(obj)
	what, place := What{Kind: client.Kind()}, source.Place{Bucket: client.Config().Bucket}
	claim, err := NewClaim(ctx, what, place, template, options)
	result := Unchanged
	if err == nil {
		result, err = createOrUpdate(ctx, client, obj, readCached, claim, options.lasts, mutate)
	}
	if err == errNotWhole {
		retry.Assign(obj, template.DeepCopyObject().(T))
		result, err = createOrUpdate(ctx, client, obj, readLive, claim, options.lasts, mutate)
	}
	for tries := 0; again(ctx, claim, err, tries) && retry.Pause(ctx, tries); tries++ {
		retry.Assign(obj, template.DeepCopyObject().(T))
		result, err = createOrUpdate(ctx, client, obj, readLive, claim, options.lasts, mutate)
	}
	if refused, ok := errors.AsType[*Refusal](err); ok {
		err = refused.Err
		claim.Tell(ctx, err)
	}
	if err != nil {
		return Unchanged, fmt.Errorf("create or update %s %q: %w", client.Kind(), key, err)
	}
	return result, nil
}

// again reports whether a write is worth another try. The leader is asked before one is refused, since the cache may be
// behind; and once more when the primary waits for the name, since it may have become free before.
func again(ctx context.Context, claim Claim, err error, tries int) bool {
	if _, refused := errors.AsType[*Refusal](err); refused {
		return tries == 0 || claim.Await(ctx)
	}
	return retry.IsOvertaken(err)
}

// Refusal marks the error of a write that is refused because of whose the object is: mutate may return such an error,
// too, about something else.
type Refusal struct{ Err error }

// Error is that of the refusal.
func (r *Refusal) Error() string { return r.Err.Error() }

// errNotWhole says that there is something to write, as far as an object shows of which a transform of the informer has
// left out something. The leader knows whether there is.
var errNotWhole = errors.New("the object is not whole")

type readFrom bool

const (
	readCached readFrom = false
	readLive   readFrom = true
)

func createOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, from readFrom, claim Claim, lasts *lasting,
	mutate func(T) error,
) (Result, error) {
	key := source.ObjectKey(obj)
	before, err := read(ctx, client, key, from)
	exists := err == nil
	switch {
	case exists:
		if err := claim.MayWrite(before); err != nil {
			return Unchanged, &Refusal{err}
		}
		if from == readCached && client.Config().OnlyMetadata {
			return Unchanged, errNotWhole // mutate is for what is there
		}
		retry.Assign(obj, before)
		before = before.DeepCopyObject().(T)
	case !apierrors.IsNotFound(err):
		return Unchanged, err
	}
	was := owner.NamedBy(obj)
	if err := mutate(obj); err != nil {
		return Unchanged, fmt.Errorf("mutate: %w", err)
	}
	if source.ObjectKey(obj) != key {
		return Unchanged, fmt.Errorf("mutate must not change name or namespace, it made %q of %q",
			source.ObjectKey(obj), key)
	}
	var existing metav1.Object
	if exists {
		existing = before
		entity.KeepMarks(before, obj)
	}
	if err := claim.Settle(was, obj, existing); err != nil {
		return Unchanged, &Refusal{err}
	}
	late := stamp(ctx, client.Config().Bucket, obj, existing)
	if !exists {
		claim.SetWriter(obj)
		return Created, retry.Overtaken(create(ctx, client, obj, lasts))
	}
	claim.KeepWriter(obj, existing)
	same, err := sameDocument(client, key, before, obj)
	if err != nil || same && lasts.isMet(before, time.Now()) {
		return Unchanged, err
	}
	if entity.IsTransformed(before) {
		return Unchanged, errNotWhole
	}
	late()
	claim.SetWriter(obj)
	return Updated, retry.Overtaken(update(ctx, client, obj, lasts))
}

func read[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], key string, from readFrom,
) (T, error) {
	if from == readCached {
		if obj, err := client.Lister().Get(key); !errors.Is(err, entity.ErrNotCached) {
			return obj, err
		}
	}
	return client.Get(ctx, key)
}

// stamp gives obj the primary's revision and proof, inside a reconcile. late is to be called before a write that has
// another reason: a stamp that is missing is none.
func stamp(ctx context.Context, bucket string, obj, existing metav1.Object) (late func()) {
	late = func() {}
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return late
	}
	primary := r.Primary()
	r.Prove(obj, owner.ResourceOfBucket(bucket)) // one that is missing, or older, is a reason to write
	switch {
	case existing == nil:
		primary.Stamp.Set(obj)
	case owner.StampOf(existing).IsNone() && primary.Stamp.ContestedFrom == 0:
		late = func() { primary.Stamp.Set(obj) }
	default:
		primary.StampOver(existing).Set(obj)
	}
	return late
}

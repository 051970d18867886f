package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/secondary"
	"github.com/nagi-runtime/nagi/internal/source"
)

// OperationResult says what CreateOrUpdate did. It is "unchanged" with each error.
type OperationResult = secondary.Result

// The results of CreateOrUpdate: nothing was written, the entity was created, or it was updated.
const (
	OperationResultNone    = secondary.Unchanged
	OperationResultCreated = secondary.Created
	OperationResultUpdated = secondary.Updated
)

// CreateOrUpdate makes the entity with obj's name and namespace what mutate makes of it.
//
// If the entity exists, it is read into obj before mutate is called; else mutate gets obj as it came. mutate sets what
// should be, and leaves the rest. It must not change name or namespace. Nothing is written when nothing changed. The
// status is neither compared nor written.
//
// Inside a reconcile the reconciled primary becomes the owner of what is created, and only its own entities are
// changed. Outside of a reconcile obj may name its owner as it comes ([Controller.SetOwner]), and then the same holds
// for that owner; or mutate names one to a new entity. An obj that names no owner changes what is there and leaves its
// owner.
//
// An entity that names no owner, such as one that a person put, is not given one: the error is a *ResourceExistsError.
// What another primary owns is not moved, whatever obj and mutate name: the error is an *AlreadyOwnedError, because two
// owners would undo each other's work for ever. So it is where mutate names another owner than the primary.
// [CreateOrUpdateWith] has the options that take an entity over. The leader is asked before either error is returned.
//
// Inside a reconcile such a refusal is an event on the primary, "ErrResourceExists" or "ErrAlreadyOwned": once, until
// something changes. If the bucket is a source of the controller, the primary is due as soon as the entity is gone or
// has another owner; else its backoff goes on.
//
// An entity of another namespace than the primary is refused before anything is written, where client is a source of
// Owns without WithOwnersInOtherNamespaces.
//
// It reads from the cache, which shows this process's own writes. If another writer was faster, it reads live and tries
// again, with pauses that grow, for ten seconds and no longer than ctx; so mutate may be called more than once. Where
// the cache has a transform (SetTransform), it reads live before it writes, too. After an error obj is undefined.
func CreateOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error,
) (OperationResult, error) {
	return secondary.CreateOrUpdate(ctx, client, obj, mutate, secondary.Options{})
}

// CreateOrUpdateWith is [CreateOrUpdate] with options that say what it may take over, and how long the entity lasts.
// It writes as CreateOrUpdate does: what mutate leaves stays, and the write is a compare-and-set, so of several who
// want an entity one gets it. What is left of a TTL stays, too, without an option.
func CreateOrUpdateWith[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error, opts ...WriteOption,
) (OperationResult, error) {
	options, err := secondary.OptionsOf(opts...)
	if err != nil {
		return OperationResultNone, fmt.Errorf("create or update %s %q: %w", client.Kind(), source.ObjectKey(obj), err)
	}
	return secondary.CreateOrUpdate(ctx, client, obj, mutate, options)
}

// WriteOption says what a write may take over, or how long what it writes lasts; see [CreateOrUpdateWith].
type WriteOption func(*secondary.Options) error

// WithAdopt gives what exists and names no owner to the primary, or outside of a reconcile to whom obj or mutate names.
// What mutate does not touch stays as it was. From then on the entity goes with its owner. One that names an owner in
// part is not taken.
func WithAdopt() WriteOption { return WriteOption(secondary.WithAdopt()) }

// WithHandOverFrom moves to the primary what exactly that primary of this installation owns, by its kind and its key as
// "name" or "namespace/name"; outside of a reconcile it moves it to whom obj or mutate names. What anybody else owns is
// refused as without the option. An owner that is named without an installation counts as one of this installation.
// The old owner is not asked: its reconciler must not want the entity any more, or it gets an *AlreadyOwnedError. Under
// WithPrune it must want it until it is moved, or it is deleted and made anew. Two primaries that hand over from each
// other move it to and fro for ever. Two controllers are one installation only if [WithInstance] gives both the same
// id.
func WithHandOverFrom(ownerKind, ownerKey string) WriteOption {
	return WriteOption(secondary.WithHandOverFrom(ownerKind, ownerKey))
}

// WithTTL makes an entity in NATS end by itself when ttl has passed since this call wrote it last, as [entity.WithTTL]
// does: to controllers its end is a delete. A call that changes nothing else renews it when less than half of ttl is
// left, and not before, because each write wakes those that watch it; and when it has no TTL, or more than twice as
// much is left. To keep the entity, call three times in ttl, such as by Result.RequeueAfter. The clocks of this
// process and of the server should differ by far less than that.
//
// An error if ttl is not above 0. IsInvalid, and nothing is written, if the bucket takes no TTLs, or ttl is above its
// age limit; the error says what to do. Kubernetes objects have no TTL: package kube refuses the option.
func WithTTL(ttl time.Duration) WriteOption { return WriteOption(secondary.WithTTL(ttl)) }

// WithoutTTL takes the TTL of an entity in NATS away: it lasts until it is deleted, or as long as its bucket keeps it.
func WithoutTTL() WriteOption { return WriteOption(secondary.WithoutTTL()) }

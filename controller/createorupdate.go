package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/secondary"
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
// changed. An entity without an owner, such as one that a person put, is a *ResourceExistsError, and an event on the
// primary says so. To hand it over, write the owner's annotations into it. An entity of another primary is an
// *AlreadyOwnedError: two owners would undo each other's work for ever. The leader is asked before either error is
// returned. An entity of another namespace than the primary is refused before anything is written, where client is a
// source of Owns without WithOwnersInOtherNamespaces. Outside a reconcile no owner is set or checked.
//
// It reads from the cache, which shows this process's own writes. If another writer was faster, it reads live and tries
// again, with pauses that grow, for ten seconds and no longer than ctx; so mutate may be called more than once. After
// an error obj is undefined.
func CreateOrUpdate[T entity.IEntity](
	ctx context.Context, client entity.IEntityClient[T], obj T, mutate func(T) error,
) (OperationResult, error) {
	return secondary.CreateOrUpdate(ctx, client, obj, mutate)
}

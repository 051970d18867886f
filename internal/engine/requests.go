package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/restore"
	"github.com/nagi-runtime/nagi/natsinformer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Enqueue makes a key due now because it was asked for.
func (e *Engine) Enqueue(key string, op operation.Operation) {
	e.queue.Add(key, operation.Of(op)|operation.ByHand|operation.Anywhere, queue.Live)
}

// EnqueueFromHandler is Enqueue for a handler of secondaries. The source calls TellOwners with the event first.
func (e *Engine) EnqueueFromHandler(key string) {
	e.queue.Add(key, operation.Of(operation.Secondary)|operation.ByHand|operation.ByHandler, queue.Live)
}

// EnqueueAfter is enqueue after a delay.
func (e *Engine) EnqueueAfter(key string, op operation.Operation, d time.Duration) {
	e.EnqueueWith(key, op, queue.Live, d)
}

// EnqueueWith is EnqueueAfter with a priority.
func (e *Engine) EnqueueWith(key string, op operation.Operation, prio queue.Priority, d time.Duration) {
	e.queue.AddAfter(key, operation.Of(op)|operation.ByHand|operation.Anywhere, prio, d, queue.UserDelay)
}

// EnqueueOwner makes the owner of a secondary due, unless Notice forgets it.
func (e *Engine) EnqueueOwner(key string) {
	e.Notice(key, operation.Of(operation.Secondary), queue.Secondary)
}

// LastKnown returns a primary as it was last known: the document as it is, or, while its teardown is owed, as it last
// was.
func LastKnown[T entity.IEntity](
	ctx context.Context, e *Engine, client entity.IEntityClient[T], key string,
) (T, error) {
	if e.records == nil || e.primary.Exists(key) {
		if obj, err := client.Get(ctx, key); err == nil || !apierrors.IsNotFound(err) {
			return obj, err
		}
	}
	return LastDeleted(ctx, e, client, key)
}

// LastDeleted is LastKnown of a primary that is gone: a document that has come since is not what was deleted.
func LastDeleted[T entity.IEntity](
	ctx context.Context, e *Engine, client entity.IEntityClient[T], key string,
) (T, error) {
	var none T
	if deleted := e.keys.Of(key).Deleted; deleted != nil {
		if obj, ok := deleted.Object.(T); ok && !e.anchors.HasWhole(ctx, key, obj) {
			last := obj.DeepCopyObject().(T)
			natsinformer.ForgetDelete(last)
			last.SetResourceVersion(strconv.FormatInt(last.GetGeneration(), 10)) // it has the delete's
			return last, nil
		}
	}
	if e.records == nil {
		return none, apierrors.NewNotFound(resourceOf(e.Kind), key)
	}
	document, revision, err := e.anchors.LastDocument(ctx, key)
	if err != nil {
		return none, err
	}
	return client.EnginePort().FromDocument(key, revision, document)
}

// ReleaseBrake requests a release of what the brake holds now, for the replica that leads.
func (e *Engine) ReleaseBrake(ctx context.Context) error {
	if e.brake == nil {
		return fmt.Errorf("controller %q: there is no brake WithoutTeardown", e.name)
	}
	if err := e.brake.Release(ctx); err != nil {
		return fmt.Errorf("controller %q: release the brake: %w", e.name, err)
	}
	return nil
}

// Restorer restores the documents whose deletes the brake holds, with what writes a document; nil without teardown.
func (e *Engine) Restorer(prepare restore.Prepare) *restore.Restorer {
	if e.brake == nil {
		return nil
	}
	return &restore.Restorer{
		Controller: e.name, Kind: e.Kind, Brake: e.brake, Records: e.records, Anchors: e.anchors, Primary: e.primary,
		Prepare: prepare, Lead: e.leading, Restored: e.sweeper.SweepSoon,
	}
}

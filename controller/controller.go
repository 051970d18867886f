package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Controller reconciles the primaries of one bucket. See New.
type Controller[T entity.IEntity] struct {
	engine *engine.Engine
	client entity.IEntityClient[T]
}

// New makes a controller; Run runs it. The name is kept in the status bucket and must stay the same over restarts. The
// client's caches are started by Run and released when it returns; others may use the client meanwhile, as a source of
// other controllers too. But as the primary's client it serves one controller: the status bucket is part of its
// configuration, and one status bucket serves one controller. Options that contradict each other, or are not built yet,
// make New fail.
//
// The status bucket also keeps the id of this installation, which every secondary carries as a label. If the bucket is lost
// while the controller runs, the id is written again. If it is lost while none runs, the next one would make a new id and
// take all secondaries for another installation's: it would neither adopt nor delete them. Put the old id, as a secondary
// has it (see entity.InstanceOf), to the key "_nagi.instance" of the new bucket before the controller starts.
func New[T entity.IEntity](name string, primary entity.IEntityClient[T], r Reconciler, opts ...Option) (*Controller[T], error) {
	o, err := applyOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	e, err := engine.New(name, primary, reconcileWith(r), o)
	if err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	return &Controller[T]{engine: e, client: primary}, nil
}

// reconcileWith is a Reconciler as the engine calls it; nil for nil.
func reconcileWith(r Reconciler) engine.Reconcile {
	if guard.IsNil(r) {
		return nil
	}
	return func(ctx context.Context, key string, operations Operations) (time.Duration, error) {
		result, err := r.Reconcile(ctx, Request{Key: key, Operations: operations})
		return result.RequeueAfter, err
	}
}

// Run reconciles until ctx ends, and returns nil after a graceful stop: no new reconcile starts, the running ones get the
// grace period with a live context, then it is cancelled; then handlers and caches are released. It fails if a source
// does not sync in time, or the status bucket belongs to another controller. A controller runs once.
//
// Replicas of one controller take turns: one holds a lease in the status bucket and works, the others wait with warm
// caches. If the lease is lost the running reconciles are cancelled and Run waits for it again.
func (c *Controller[T]) Run(ctx context.Context) error { return c.engine.Run(ctx) }

// Enqueue makes a key due now, for the given reason. It runs even where the runtime sees nothing to do for it, and
// OperationManual, Put, Delete and Purge wake a parked key. Before Run it is kept until Run; after Run it does nothing.
func (c *Controller[T]) Enqueue(key string, op Operation) {
	c.engine.Enqueue(key, op)
}

// EnqueueAfter is Enqueue after a delay, which no event cancels. Of two delays for a key the shorter wins.
func (c *Controller[T]) EnqueueAfter(key string, op Operation, d time.Duration) {
	c.engine.EnqueueAfter(key, op, d)
}

// LastKnown returns a primary as it was last known: the document as it is, or, while its teardown is owed, as it last
// was. IsNotFound if neither is there.
func (c *Controller[T]) LastKnown(ctx context.Context, key string) (T, error) {
	return engine.LastKnown(ctx, c.engine, c.client, key)
}

// SetOwner makes the primary with that key the owner of obj: kind, key and the id of this installation, as labels and
// annotations. The id is known once Run has begun, so it belongs into a reconcile; CreateOrUpdate calls it there.
func (c *Controller[T]) SetOwner(obj metav1.Object, key string) { c.engine.SetOwner(obj, key) }

// Instance returns the id of this installation, which everything that belongs to it is marked with; "" before Run has begun.
// It belongs on resources behind an API that the reconciler creates by itself: the client's List must tell those of this
// installation from others (see external.OwnerFrom). external.Reconcile hands it to the driver, and SetOwner writes it.
func (c *Controller[T]) Instance() string { return c.engine.InstanceID() }

// ReleaseBrake lets the deletes go that the brake holds, and takes the bucket's stream, as it is now, for the known one.
// It returns when the release is kept in the status bucket, for whichever replica leads; an engaged brake is released
// within moments after. Without anything to release it changes nothing.
func (c *Controller[T]) ReleaseBrake(ctx context.Context) error { return c.engine.ReleaseBrake(ctx) }

// Stats returns the counts and states of this moment. It is cheap enough to be called every second.
func (c *Controller[T]) Stats() Stats { return statsOf(c.engine) }

package controllerruntime

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Controller reconciles the primaries of one bucket. See New.
type Controller[T entity.IEntity] struct {
	engine *engine
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
	if err := checkNew(name, primary, r, o.withoutTeardown); err != nil {
		return nil, err
	}
	e := newEngine(name, primary.Kind(), primary.Config(), primary.Records(), r, o)
	e.primary = source.NewPrimary(primary, observer{e}, o.primary.predicates, !o.withoutTeardown, e.sourceHealth)
	if e.anchors != nil {
		e.anchors.Primary = e.primary
		e.teardown = e.newTeardown()
	}
	if err := e.addSources(); err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	return &Controller[T]{engine: e, client: primary}, nil
}

// Run reconciles until ctx ends, and returns nil after a graceful stop: no new reconcile starts, the running ones get the
// grace period with a live context, then it is cancelled; then handlers and caches are released. It fails if a source
// does not sync in time, or the status bucket belongs to another controller. A controller runs once.
//
// Replicas of one controller take turns: one holds a lease in the status bucket and works, the others wait with warm
// caches. If the lease is lost the running reconciles are cancelled and Run waits for it again.
func (c *Controller[T]) Run(ctx context.Context) error { return c.engine.run(ctx) }

// Enqueue makes a key due now, for the given reason. It runs even where the runtime sees nothing to do for it, and
// OperationManual, Put, Delete and Purge wake a parked key. Before Run it is kept until Run; after Run it does nothing.
func (c *Controller[T]) Enqueue(key string, op Operation) {
	c.engine.queue.Add(key, operation.Of(op)|operation.ByHand, queue.Live)
}

// EnqueueAfter is Enqueue after a delay, which no event cancels. Of two delays for a key the shorter wins.
func (c *Controller[T]) EnqueueAfter(key string, op Operation, d time.Duration) {
	c.engine.queue.AddAfter(key, operation.Of(op)|operation.ByHand, queue.Live, d, queue.UserDelay)
}

// LastKnown returns a primary as it was last known: the document as it is, or, while its teardown is owed, as it last
// was. IsNotFound if neither is there.
func (c *Controller[T]) LastKnown(ctx context.Context, key string) (T, error) {
	var none T
	if c.engine.records == nil || c.engine.primary.Exists(key) {
		if obj, err := c.client.Get(ctx, key); err == nil || !apierrors.IsNotFound(err) {
			return obj, err
		}
	}
	if deleted := c.engine.keys.of(key).deleted; deleted != nil {
		if obj, ok := deleted.object.(T); ok {
			last := obj.DeepCopyObject().(T)
			natsinformer.ForgetDelete(last)
			last.SetResourceVersion(strconv.FormatInt(last.GetGeneration(), 10)) // it has the delete's
			return last, nil
		}
	}
	if c.engine.records == nil {
		return none, apierrors.NewNotFound(resourceOf(c.engine.kind), key)
	}
	record, err := c.engine.records.Get(ctx, key)
	if err != nil {
		return none, err
	}
	if len(record.LastDocument) == 0 {
		return none, fmt.Errorf("last document of %s %q: it was not kept, because it was larger than LastDocumentLimit (%d bytes), or was never reconciled",
			c.engine.kind, key, c.engine.lastDocumentLimit)
	}
	return c.client.FromDocument(key, record.DocumentRevision, record.LastDocument)
}

// SetOwner makes the primary with that key the owner of obj: kind, key and the id of this installation, as labels and
// annotations. The id is known once Run has begun, so it belongs into a reconcile; CreateOrUpdate calls it there.
func (c *Controller[T]) SetOwner(obj metav1.Object, key string) { c.engine.setOwner(obj, key) }

// Instance returns the id of this installation, which everything that belongs to it is marked with; "" before Run has begun.
// It belongs on resources behind an API that the reconciler creates by itself: the client's List must tell those of this
// installation from others (see external.OwnerFrom). external.Reconcile hands it to the driver, and SetOwner writes it.
func (c *Controller[T]) Instance() string { return c.engine.instanceID() }

// ReleaseBrake lets the deletes go that the brake holds, and takes the bucket's stream, as it is now, for the known one.
// It returns when the release is kept in the status bucket, for whichever replica leads; an engaged brake is released
// within moments after. Without anything to release it changes nothing.
func (c *Controller[T]) ReleaseBrake(ctx context.Context) error { return c.engine.releaseBrake(ctx) }

// Stats returns the counts and states of this moment. It is cheap enough to be called every second.
func (c *Controller[T]) Stats() Stats { return c.engine.snapshot() }

func (e *engine) releaseBrake(ctx context.Context) error {
	if e.brake == nil {
		return fmt.Errorf("controller %q: there is no brake WithoutTeardown", e.name)
	}
	if err := e.brake.Release(ctx); err != nil {
		return fmt.Errorf("controller %q: release the brake: %w", e.name, err)
	}
	return nil
}

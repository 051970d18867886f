package controller

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Controller reconciles the primaries of one bucket. [New] makes one, [Controller.Run] runs it, once. All its methods
// may be called concurrently.
type Controller[T entity.IEntity] struct {
	name   string
	engine *engine.Engine
	client entity.IEntityClient[T]
}

// New makes a controller; Run runs it. New itself starts nothing.
//
// The name is kept in the status bucket and must stay the same over restarts. Errors, logs and events carry it. It has
// 1 to 128 bytes of printable UTF-8.
//
// One status bucket serves one controller, and it is part of the primary client's configuration. So a client is the
// primary of one controller only. It may be a source of other controllers, and anybody may read and write with it. Run
// starts the client's caches, and releases them when it returns.
//
// New fails where an option cannot be honoured or contradicts another. The error names all that is wrong at once.
//
// The status bucket also keeps the id of this installation, which each secondary carries as a label. If the bucket is
// lost while the controller runs, the id is written again. If it is lost while no replica runs, [Controller.Run] waits
// for the old id. [WithInstance] gives it, and so does a put to "_nagi.instance" in the status bucket; each secondary
// has it (see entity.InstanceOf).
func New[T entity.IEntity](
	name string, primary entity.IEntityClient[T], r Reconciler, opts ...Option,
) (*Controller[T], error) {
	o, err := applyOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	if err := fit(reflect.TypeFor[T](), o.Predicates); err != nil {
		return nil, fmt.Errorf("New(%q): WithPrimary: %w", name, err)
	}
	c := &Controller[T]{name: name, client: primary}
	if r, err = c.bound(r); err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	if c.engine, err = engine.New(name, primary, reconcileWith(r), o); err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	if err := writesRecords(primary, o); err != nil {
		return nil, fmt.Errorf("New(%q): %w", name, err)
	}
	for _, observer := range o.Observers {
		if a, ok := observer.(Attacher); ok {
			a.Attach(name, c.Stats)
		}
	}
	for _, beside := range o.Beside {
		if b, ok := beside.(interface{ Serves(controller any) }); ok {
			b.Serves(c)
		}
	}
	return c, nil
}

// writesRecords refuses a primary whose records can only be read. The documents of a primary may be those of a mirror.
func writesRecords[T entity.IEntity](primary entity.IEntityClient[T], o engine.Options) error {
	if o.WithoutTeardown {
		return nil
	}
	if err := primary.EnginePort().Records().ReadOnly(); err != nil {
		return fmt.Errorf("a controller writes the records of its primary: give its client a StatusBucket of its own, "+
			"or run the controller where the records can be written: %w", err)
	}
	return nil
}

// reconcileWith is a Reconciler as the engine calls it; nil for nil.
func reconcileWith(r Reconciler) engine.Reconcile {
	if guard.IsNil(r) {
		return nil
	}
	return func(ctx context.Context, key string, operations Operations) (engine.Requeue, error) {
		result, err := r.Reconcile(ctx, Request{Key: key, Operations: operations})
		return result.requeue(), err
	}
}

// Run reconciles until ctx ends, and returns nil after a graceful stop. On the stop no new reconcile starts. The
// running ones go on with a live context for the grace period (see WithGracePeriod); then their context is cancelled.
// Last, handlers and caches are released.
//
// A controller whose status bucket was lost does not know any more which objects are its own. If it finds objects that
// carry the id of another installation, and none in the status bucket, it waits, says so in Stats().Degraded and the
// log, and begins when the id is put to "_nagi.instance" in the status bucket, or given by [WithInstance].
//
// Run returns an error if a source does not sync in time, or if the status bucket belongs to another controller. What
// goes wrong later is retried, and shown by Stats and the log; it does not end Run. A controller runs once; a second
// call returns an error.
//
// Replicas of one controller take turns. One holds a lease in the status bucket and works; the others wait with warm
// caches. A replica that loses the lease cancels its running reconciles and waits for the lease again. It cannot while
// one of them does not return: that shows in Stats().Degraded after a second, and Run returns an error after the grace
// period, or ten seconds if that is longer, unless the grace period has no limit. Let the process end then, so that
// another begins.
func (c *Controller[T]) Run(ctx context.Context) error { return c.engine.Run(ctx) }

// Name returns the name that the controller was made with.
func (c *Controller[T]) Name() string { return c.name }

// Enqueue makes a key due now, for the given reason. The key is reconciled even if nothing about it has changed. One
// without a document is reconciled with OperationDelete, and what it owned is deleted, unless it never was: then what
// names it stays, and the log names what of that bears the id of this installation.
// A parked key is woken by OperationManual, Put, Delete and Purge at once, by Secondary, Tertiary and External as by an
// event, and by other reasons not at all; see TerminalError. Keys enqueued before Run wait for it. After Run has
// returned Enqueue does nothing.
func (c *Controller[T]) Enqueue(key string, op Operation) {
	c.engine.Enqueue(key, op)
}

// EnqueueAfter is Enqueue after a delay; at once if d is not positive. No event cancels the delay. Of two delays for
// one key the shorter wins.
func (c *Controller[T]) EnqueueAfter(key string, op Operation, d time.Duration) {
	c.engine.EnqueueAfter(key, op, d)
}

// LastKnown returns a primary as it was last known. While the document exists that is a live read. While its teardown
// is owed, it is the document that was reconciled last, or that the delete was seen with. The error is IsNotFound where
// there is neither, and another one where the last document was too large to keep (entity.Config.LastDocumentLimit).
// After a restart the document comes without the fields that are secret (entity.Config.SecretFields): a reconciler that
// needs one of them for its teardown has to keep it where secrets are kept.
func (c *Controller[T]) LastKnown(ctx context.Context, key string) (T, error) {
	return engine.LastKnown(ctx, c.engine, c.client, key)
}

// SetOwner makes the primary with that key the owner of obj: it sets kind, key and the id of this installation, as
// labels and annotations. It writes nothing to a server. The id is known once Run has begun, so call it inside a
// reconcile. CreateOrUpdate and the handles of package kube call it for you. With [WithOwnerProof] use SetProvenOwner.
func (c *Controller[T]) SetOwner(obj metav1.Object, key string) {
	c.engine.SetOwner(obj, key, owner.Resource{})
}

// Instance returns the id of this installation; "" before Run has begun. Mark with it what a reconciler creates behind
// an API by itself, so that the client's List can tell this installation's resources from others (see
// external.OwnerFrom). external.Reconcile hands the id to the driver, and SetOwner writes it.
func (c *Controller[T]) Instance() string { return c.engine.InstanceID() }

// ReleaseBrake lets the deletes go that the brake holds, and accepts the bucket's stream as it is now. It returns when
// the release is stored in the status bucket. The replica that leads acts on it within moments, even if it is another
// one. Where the brake holds nothing, ReleaseBrake changes nothing.
//
// A replica that does not lead requests the release of what the leader has said last that it holds. If the leader holds
// more by then, it ignores the request, and says so in its Stats.Degraded: call ReleaseBrake again.
func (c *Controller[T]) ReleaseBrake(ctx context.Context) error { return c.engine.ReleaseBrake(ctx) }

// Stats returns the counts and states of this moment. It sends no request, and is cheap enough to call every second.
func (c *Controller[T]) Stats() Stats { return statsOf(c.engine) }

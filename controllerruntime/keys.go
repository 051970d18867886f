package controllerruntime

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/guard"
	ops "github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// EnqueueKey makes a key due now, for the given reason. See controller.Controller.Enqueue.
//
// A replica that waits for the lease keeps what is enqueued for OperationSecondary, OperationTertiary or
// OperationExternal only if the primary exists, as an override of HandleSecondary enqueues it; what is owed to a
// primary that is gone, its record tells when the replica leads. What is enqueued for another reason is kept.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) EnqueueKey(key string, operation controller.Operation) {
	r.enqueue(func() {
		switch {
		case ops.IsEvent(operation) && !r.engine.Leads():
			r.engine.Notice(key, ops.Of(operation), queue.Secondary)
		case operation == OperationSecondary:
			r.engine.EnqueueFromHandler(key)
		default:
			r.controller.Enqueue(key, operation)
		}
	})
}

// enqueue does it now, and before Run once more for each controller that build makes.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) enqueue(do func()) {
	ready := func() {
		if r.controller != nil {
			do()
		}
	}
	r.mu.Lock()
	if !r.began.Load() {
		r.early = append(r.early, ready)
	}
	r.mu.Unlock()
	ready()
}

// EnqueueKeyAfter makes a key due after a delay, which no event cancels. Of two delays for one key the shorter wins. A
// replica that does not lead keeps no delay for the reasons that EnqueueKey names: the key, if it exists, is due when
// the replica leads.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) EnqueueKeyAfter(
	key string, operation controller.Operation, delay time.Duration,
) {
	r.enqueue(func() {
		if ops.IsEvent(operation) && r.began.Load() && !r.engine.Leads() {
			r.engine.Notice(key, ops.Of(operation), queue.Secondary)
			return
		}
		r.controller.EnqueueAfter(key, operation, delay)
	})
}

// Operations returns, inside SyncHandler, why the key is synced. At other times it is empty.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) Operations(key string) controller.Operations {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.syncing[key].operations
}

// Context returns, inside SyncHandler, the context of this sync. It carries the logger, and ends when the controller
// has to stop. With it controller.CreateOrUpdate, controller.SetStatus and the handles of package kube write for this
// key, as in a reconcile. A write under another context counts as another writer's: the next sync does not wait until
// the caches show it, and a sync that wakes itself by it is not noticed. For a key that is not synced now it returns
// context.Background().
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) Context(key string) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.syncing[key]; ok {
		return s.ctx
	}
	return context.Background()
}

// SetOwner makes the primary with that key the owner of obj: it sets kind, key and the id of this installation, as
// labels and annotations. Call it inside SyncHandler; the id is known once Run has begun.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) SetOwner(obj metav1.Object, key string) {
	if r.controller != nil {
		r.controller.SetOwner(obj, key)
	}
}

// Event records an event about a NATS entity or a Kubernetes object. eventtype is "Normal" or "Warning". It never
// blocks, and drops the event while Run does not run.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) Event(
	object runtime.Object, eventtype string, reason string, message string,
) {
	r.mu.Lock()
	events := r.recorder
	r.mu.Unlock()
	if events == nil {
		printable.Logger(klog.Background()).V(2).Info("Event outside of Run, dropped",
			"controller", r.name, "reason", reason, "message", message)
		return
	}
	events.Event(object, eventtype, reason, message)
}

// HandleSecondary enqueues the owner of a secondary with OperationSecondary, if the owner is of the primary's kind and
// of this installation. An owner that never existed, or that is gone and cleaned up after, is left to
// GarbageSecondaries.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) HandleSecondary(obj any) {
	if r.controller == nil {
		return
	}
	key := ""
	if resource, ok := obj.(external.Resource); ok {
		key = resource.OwnerKey
	} else {
		var err error
		if _, key, err = r.decompose(obj); err != nil {
			printable.Logger(klog.Background()).Error(err, "Secondary ignored", "controller", r.name)
			return
		}
	}
	if key != "" {
		r.enqueue(func() { r.engine.EnqueueOwner(key) })
	}
}

// GarbageSecondaries enqueues, with OperationDelete, each owner that secondaries name and that does not exist. The
// leader is asked before SyncHandler is called, and the brake holds back a mass delete. An override may call it from
// its own GarbageSecondaries; at any other time it does nothing.
//
// A secondary names its owner in annotations, or, as those that the original Kumori runtime made, in labels alone. One
// without the id of an installation counts as one of this installation, because the original sets none; see
// RequireInstance. Of each missing owner the bucket must still have the marker of its delete: who may write secondaries
// can name any owner, and another installation may share the cluster. Without a marker no owner is enqueued;
// Stats().NeverWas counts the object, and the log names it. So it stays, too, where labels have only the hash of a key
// that nobody has.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) GarbageSecondaries() {
	r.mu.Lock()
	sweep := r.sweep
	r.mu.Unlock()
	if sweep != nil {
		sweep()
	}
}

// Clean does nothing.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) Clean() {}

// DecomposeKubeSecondaryResource returns the secondary, which it takes out of a DeletedFinalStateUnknown if need be,
// and the key of the primary that owns it, as the annotations say, or the labels where these are gone. The key is "" if
// the secondary names no owner, one of another kind, one of another installation, or the hash of a key that no primary
// has. A secondary that names no installation is of this one, but for RequireInstance. An obj that is not an object
// with metadata is an error.
//
// It may be called at any time. The id of this installation is known once Run has begun; before, a secondary that names
// an installation counts as one of this.
func (r *ControllerRuntime[P, S1, S2, S3, S4, T1, T2, T3, T4]) DecomposeKubeSecondaryResource(
	obj any,
) (secondaryResource metav1.Object, primaryKey string, err error) {
	return r.decompose(obj)
}

func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) decompose(
	obj any,
) (secondaryResource metav1.Object, primaryKey string, err error) {
	secondaryResource, ok := source.MetaObject(obj)
	if !ok || guard.IsNil(secondaryResource) {
		return nil, "", fmt.Errorf("controller %q: a secondary must be an object with metadata, got %T", r.name, obj)
	}
	r.mu.Lock() // Run sets what it was told
	defer r.mu.Unlock()
	if r.engine == nil || r.engine.InstanceID() == "" && !r.nameless {
		return secondaryResource, r.ownerOf(secondaryResource), nil
	}
	keys, err := r.engine.OwnersIn(everywhere{})(context.Background(), secondaryResource)
	if err != nil || len(keys) == 0 {
		return secondaryResource, "", err
	}
	return secondaryResource, keys[0], nil
}

// ownerOf is what the marks of a secondary say while the id of the installation is not known.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) ownerOf(secondary metav1.Object) (key string) {
	named, ours := owner.Claim{Kind: r.kind}.OwnerOf(secondary)
	key, _ = named.Key()
	if !ours || r.strict && named.Owner().Instance == "" || r.engine != nil && !r.engine.WellFormed(key) {
		return ""
	}
	return key
}

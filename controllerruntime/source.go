package controllerruntime

import (
	"context"
	"fmt"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// source is where events come from. Its life: start, wait for synced, events, stop.
type source interface {
	// String names the source in errors, logs and Stats: "Owns Page (bucket pages)".
	String() string
	// start takes the caches into use and adds the handlers. ctx lives until the controller has stopped.
	start(ctx context.Context) error
	// synced are done when the caches are complete and the handlers have seen the whole initial list.
	synced() []cache.DoneChecker
	// err is why the source does not work now; nil if it does, or cannot tell.
	err() error
	// stop takes the handlers off and releases the caches.
	stop()
}

// ownedSource is a source of secondaries, which cascade and sweep delete.
type ownedSource interface {
	source
	// owns tells whether the objects are secondaries; deletable and the rest mean nothing where it is false.
	owns() bool
	// deletable tells whether the runtime can delete here, and so waits until what it deleted is gone.
	deletable() bool
	// ownedBy lists the secondaries of a primary of this controller's kind, of every installation.
	ownedBy(key string) ([]metav1.Object, error)
	// all lists everything in the cache. The objects must not be modified.
	all() []metav1.Object
	// remove deletes obj if it is still what was seen. One that is absent is success.
	remove(ctx context.Context, obj metav1.Object) error
}

// mapper finds the primaries that an object concerns.
type mapper func(ctx context.Context, obj metav1.Object) ([]string, error)

// sink takes a source's events.
type sink interface {
	created(ctx context.Context, obj metav1.Object, initial bool)
	updated(ctx context.Context, oldObj, newObj metav1.Object)
	// deleted gets what the informer gave, which may be a cache.DeletedFinalStateUnknown.
	deleted(ctx context.Context, obj any)
}

// events turns a source's events into keys in the queue.
type events struct {
	engine     *engine
	source     fmt.Stringer
	predicates allOf
	keys       mapper
	operation  Operation
}

func (s *events) created(ctx context.Context, obj metav1.Object, initial bool) {
	if !s.passes(ctx, func() bool { return s.predicates.Create(obj) }) {
		return
	}
	prio := queue.Secondary
	if initial {
		prio = queue.Background
	}
	s.enqueue(ctx, prio, obj)
}

func (s *events) updated(ctx context.Context, oldObj, newObj metav1.Object) {
	if !s.passes(ctx, func() bool { return s.predicates.Update(oldObj, newObj) }) {
		return
	}
	s.enqueue(ctx, queue.Secondary, oldObj, newObj)
}

func (s *events) deleted(ctx context.Context, gone any) {
	obj, ok := metaObject(gone)
	if !ok {
		klog.FromContext(ctx).Info("Deleted object is not known, so neither is whom it concerns; the resync makes up for it",
			"source", s.source.String(), "type", fmt.Sprintf("%T", gone))
		return
	}
	if !s.passes(ctx, func() bool { return s.predicates.Delete(obj) }) {
		return
	}
	s.enqueue(ctx, queue.Secondary, obj)
}

// passes lets an event pass if its predicates panic: a superfluous reconcile is harmless, a lost event is not.
func (s *events) passes(ctx context.Context, ask func() bool) bool {
	if len(s.predicates) == 0 {
		return true
	}
	pass := true
	if err := guard(func() error { pass = ask(); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Predicate panicked, the event passes", "source", s.source.String())
		return true
	}
	return pass
}

func (s *events) enqueue(ctx context.Context, prio queue.Priority, objs ...metav1.Object) {
	s.engine.mappings.call(ctx, &mapping{events: s, objects: objs, prio: prio})
}

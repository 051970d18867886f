package source

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Events is the sink that makes the primaries due which an event concerns, as far as predicates let it pass.
type Events struct {
	Source     fmt.Stringer
	Predicates Predicates
	Keys       Mapper
	Operation  operation.Operation // why they are due
	Mappings   *Mappings
}

// Created implements Sink.
func (s *Events) Created(ctx context.Context, obj metav1.Object, initial bool) {
	if !s.Passes(ctx, func() bool { return s.Predicates.Create(obj) }) {
		return
	}
	prio := queue.Secondary
	if initial {
		prio = queue.Background
	}
	s.enqueue(ctx, prio, obj)
}

// Updated implements Sink.
func (s *Events) Updated(ctx context.Context, oldObj, newObj metav1.Object) {
	if !s.Passes(ctx, func() bool { return s.Predicates.Update(oldObj, newObj) }) {
		return
	}
	s.enqueue(ctx, queue.Secondary, oldObj, newObj)
}

// Deleted implements Sink.
func (s *Events) Deleted(ctx context.Context, gone any) {
	obj, ok := MetaObject(gone)
	if !ok {
		klog.FromContext(ctx).Info("Deleted object is not known, so neither is whom it concerns; "+
			"the resync makes up for it",
			"source", s.Source.String(), "type", fmt.Sprintf("%T", gone))
		return
	}
	if !s.Passes(ctx, func() bool { return s.Predicates.Delete(obj) }) {
		return
	}
	s.Mappings.call(ctx, &mapping{events: s, objects: []metav1.Object{obj}, prio: queue.Secondary, deleted: true,
		cause: causes.From(ctx)})
}

// Passes lets an event pass if its predicates panic: a superfluous reconcile is harmless, a lost event is not.
func (s *Events) Passes(ctx context.Context, ask func() bool) bool {
	if len(s.Predicates) == 0 {
		return true
	}
	pass := true
	if err := guard.Call(func() error { pass = ask(); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Predicate panicked, the event passes", "source", s.Source.String())
		return true
	}
	return pass
}

func (s *Events) enqueue(ctx context.Context, prio queue.Priority, objs ...metav1.Object) {
	s.Mappings.call(ctx, &mapping{events: s, objects: objs, prio: prio, cause: causes.From(ctx)})
}

package source

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tell tells the trail of a key, if it has one, what makes it due.
func (m *Mappings) tell(key string, call *mapping) {
	m.enqueue.Caused(key, call.cause)
	trail := m.enqueue.Trail(key)
	if trail == nil {
		return
	}
	if call.retried || len(call.objects) > 2 {
		trail.Saw(loops.Cause{}) // not known any more
		return
	}
	before, after := metav1.Object(nil), call.objects[len(call.objects)-1]
	switch {
	case call.deleted:
		before, after = after, nil
	case len(call.objects) == 2:
		before = call.objects[0]
	}
	Tell(trail, call.events.Source, before, after)
}

// isNews reports whether the event says anything new of its object, as far as its source can tell. It cannot tell of
// objects without a resourceVersion, as fake clientsets have them.
func (call *mapping) isNews() bool {
	told, ok := call.events.Source.(Caused)
	if !ok || call.deleted || len(call.objects) != 2 || call.objects[1].GetResourceVersion() == "" {
		return true
	}
	_, news := told.Cause(call.objects[0], call.objects[1])
	return news
}

// Tell tells a trail of an event of a source.
func Tell(trail *loops.Trail, source any, before, after metav1.Object) {
	told, ok := source.(Caused)
	if !ok {
		trail.Saw(loops.Cause{}) // not known
		return
	}
	if c, news := told.Cause(before, after); news {
		trail.Saw(c)
	}
}

// tell tells the trail of a primary, if it has one, that its document has changed.
func (s *Primary[T]) tell(key string, before, after metav1.Object) {
	if trail := s.listener.Trail(key); trail != nil {
		c := causeIn(s.informer(), s.client.Kind(), before, after)
		c.Primary = true
		trail.Saw(c)
	}
}

// Cause implements Caused. An event that shows the document as it was is one of its record, which the entity's own
// controller wrote.
func (s *NATS[T]) Cause(before, after metav1.Object) (c loops.Cause, news bool) {
	return causeIn(s.client.Informer(), s.client.Kind(), before, after), true
}

func causeIn(informer natsinformer.Informer, kind string, before, after metav1.Object) loops.Cause {
	of := after
	if of == nil {
		of = before
	}
	c := loops.Cause{Kind: kind, Key: ObjectKey(of), Before: before, After: after}
	c.Of = informer.Status().StreamCreated.UnixNano()
	if before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion() {
		c.Version = of.GetResourceVersion() // of what was deleted it is that of the delete
	}
	return c
}

// caused returns the context of an event of a document, with the write that it is of, if an observer wants to know.
func (s *NATS[T]) caused(ctx context.Context, event any) context.Context {
	if s.seen == nil {
		return ctx
	}
	return s.causedIn(ctx, s.client.Config().Bucket, event)
}

func (s *NATS[T]) causedIn(ctx context.Context, bucket string, event any) context.Context {
	obj, _ := MetaObject(event)
	return causes.With(ctx, s.seen.Of(bucket, obj))
}

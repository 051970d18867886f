package controllerruntime

import (
	"context"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"strings"
	"sync/atomic"
	"time"
)

// primary is what the engine, which knows no types, needs of the primary's client.
type primary interface {
	source
	// view tells what the cache knows of a key.
	view(key string) view
	// keys lists the keys in the cache, invalid ones excepted.
	keys() []string
	// checkKey returns an error for a key that no primary can have.
	checkKey(key string) error
	// exists tells whether the key is in the cache or invalid.
	exists(key string) bool
	// confirm asks the leader.
	confirm(ctx context.Context, key string) (entity.Presence, error)
	// encode makes the document of an object in the cache.
	encode(obj runtime.Object) ([]byte, error)
	// updateStatus and statusChange are the client's, for an object of the primary's type.
	updateStatus(ctx context.Context, obj entity.IEntity) error
	statusChange(obj entity.IEntity) (*entity.StatusChange, error)
	// stream is the stream that the cache reflects, streamID the part of its identity that records keep.
	stream() streamIdentity
	streamID() string
	// await waits until the cache of documents has reached a sequence of the stream.
	await(ctx context.Context, sequence uint64) error
	// vanishings tells how the deletes seen by this process came to be known.
	vanishings() *vanishings
}

type presence uint8

const (
	absent presence = iota
	present
	invalid
	coming // the informer has read it, and its event is on the way to the store
)

// view is what the cache knows of a primary. The object must not be modified.
type view struct {
	presence presence
	revision uint64
	object   metav1.Object
}

func (v view) suspended() bool {
	return v.object != nil && v.object.GetAnnotations()[SuspendAnnotation] == "true"
}

// primarySource is the primary's documents. Records are not watched as a reason to reconcile, so that a controller
// never wakes itself; only a record that somebody deleted by hand is noticed.
type primarySource[T entity.IEntity] struct {
	*natsSource[T]
	changes  *events
	vanished vanishings
	identity atomic.Pointer[knownStream]
	cache    atomic.Pointer[natsinformer.Informer] // from start on
	mended   keyed[struct{}]                       // their event is on the way, and predicates must not hold it back
}

func newPrimarySource[T entity.IEntity](e *engine, client entity.IEntityClient[T], so sourceOptions) *primarySource[T] {
	s := &primarySource[T]{natsSource: newNatsSource(e, "primary", client)}
	s.changes = &events{engine: e, source: s, predicates: so.predicates}
	return s
}

func (s *primarySource[T]) start(ctx context.Context) error {
	s.keepInformer() // for the hooks, which come from within the client
	err := s.acquire(ctx, entity.Hooks{
		Invalid: func(key string, _ uint64, err error) { s.engine.invalid(ctx, key, err) },
		Resolved: func(key string) {
			if s.exists(key) {
				s.mended.put(key, struct{}{})
			} else if s.engine.anchors != nil && anchored(s.engine.anchors.cached(key)) {
				s.vanished.noteResolved(key)
			}
			s.engine.noticed(key, operation.Of(OperationPut), queue.Live)
		},
		Reserved: func(name string, _ uint64, value []byte) { s.engine.reservedChanged(name, value) },
	})
	if err != nil {
		return err
	}
	s.keepInformer() // it was another one if its last user stopped just then
	err = s.handlers.add(s.informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { s.added(ctx, obj.(metav1.Object), initial) },
		UpdateFunc: func(oldObj, newObj any) {
			s.changed(ctx, oldObj.(metav1.Object), newObj.(metav1.Object))
		},
		DeleteFunc: func(obj any) {
			if obj, ok := metaObject(obj); ok {
				s.deleted(ctx, obj)
			}
		},
	})
	if err != nil || s.engine.records == nil {
		return err
	}
	return s.handlers.add(s.engine.records.Informer(), cache.ResourceEventHandlerDetailedFuncs{
		DeleteFunc: func(obj any) { s.recordDeleted(obj) },
	})
}

func (s *primarySource[T]) added(ctx context.Context, obj metav1.Object, initial bool) {
	key := objectKey(obj)
	s.vanished.forget(key)
	if s.engine.brake != nil {
		s.engine.brake.settled(key) // also where a predicate keeps the key from the queue
	}
	if !s.isMended(key) && !s.changes.passes(ctx, func() bool { return s.changes.predicates.Create(obj) }) {
		return
	}
	prio := queue.Live
	if initial {
		prio = queue.Background
	} else {
		s.engine.queue.ResetBackoff(key)
	}
	s.engine.noticed(key, operation.Of(OperationPut), prio)
}

func (s *primarySource[T]) changed(ctx context.Context, before, after metav1.Object) {
	if before == after {
		return // nothing was read: the informer's resync, which is off, since ours is the engine's
	}
	key := objectKey(after)
	passes := func() bool {
		return s.changes.passes(ctx, func() bool { return s.changes.predicates.Update(before, after) })
	}
	if !s.isMended(key) && !askedOfRuntime(before, after) && !passes() {
		return
	}
	s.engine.queue.ResetBackoff(key)
	s.engine.noticed(key, operation.Of(OperationPut), queue.Live)
}

// isMended tells, once, that the document did not decode before this event.
func (s *primarySource[T]) isMended(key string) bool {
	_, ok := s.mended.take(key)
	return ok
}

// askedOfRuntime tells whether what the document asks of the runtime has changed. That is no business of predicates.
func askedOfRuntime(before, after metav1.Object) bool {
	old, now := before.GetAnnotations(), after.GetAnnotations()
	return old[DeletionPolicyAnnotation] != now[DeletionPolicyAnnotation] || old[SuspendAnnotation] != now[SuspendAnnotation]
}

// deleted remembers what vanished and how; predicates decide only about the hurry, because a teardown is owed anyway.
func (s *primarySource[T]) deleted(ctx context.Context, obj metav1.Object) {
	key := objectKey(obj)
	s.mended.forget(key)
	if s.engine.anchors != nil {
		s.engine.anchors.losses.forget(key)
	}
	deletion := natsinformer.DeleteOf(obj)
	s.vanished.put(key, vanishing{object: obj, evidenced: deletion.Evidenced})
	s.engine.queue.ResetBackoff(key)
	op := OperationDelete
	if deletion.Reason == natsinformer.PurgeMarker {
		op = OperationPurge
	}
	if s.engine.records == nil && !s.changes.passes(ctx, func() bool { return s.changes.predicates.Delete(obj) }) {
		s.vanished.forget(key)
		return
	}
	if !s.engine.noticed(key, operation.Of(op), queue.Live) && !anchored(s.engine.anchors.cached(key)) {
		s.vanished.forget(key) // torn down by the replica that leads, before we heard of the delete
	}
}

func (s *primarySource[T]) recordDeleted(record any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(record)
	if err != nil || s.engine.reserved(key) {
		return
	}
	if s.exists(key) {
		// Deleted by hand: without it a delete of the primary while we are down would be lost.
		if lost, _, ok := entity.RecordOf(record); ok && anchored(lost) {
			s.engine.anchors.losses.put(key, lost)
		}
		s.engine.noticed(key, operation.Of(OperationResync), queue.Secondary)
		return
	}
	// Torn down, by us or by the replica that leads.
	s.vanished.forget(key)
	s.engine.anchors.losses.forget(key)
}

func (s *primarySource[T]) view(key string) view {
	informer := s.informer()
	item, exists, err := informer.GetStore().GetByKey(key)
	broken := informer.IsInvalid(s.natsKey(key))
	if err != nil || !exists {
		switch {
		case broken:
			return view{presence: invalid}
		case s.exists(key):
			return view{presence: coming}
		}
		return view{}
	}
	obj := item.(metav1.Object)
	v := view{presence: present, object: obj}
	v.revision = uint64(obj.GetGeneration()) // entities have the stream sequence there too, and it need not be parsed
	if broken {
		v.presence = invalid
	}
	return v
}

func (s *primarySource[T]) keepInformer() {
	informer := s.client.Informer()
	s.cache.Store(&informer)
}

// informer is the one that Run started: a client that was closed meanwhile would make another, which is empty.
func (s *primarySource[T]) informer() natsinformer.Informer {
	if informer := s.cache.Load(); informer != nil {
		return *informer
	}
	return s.client.Informer()
}

// natsKey is what the informer is asked for about keys that are not in its store: "shop/home" would be the NATS key of that
// name, which is malformed and none of ours.
func (s *primarySource[T]) natsKey(key string) string { return strings.Replace(key, "/", ".", 1) }

func (s *primarySource[T]) keys() []string         { return s.informer().GetStore().ListKeys() }
func (s *primarySource[T]) exists(key string) bool { return s.informer().Exists(s.natsKey(key)) }

func (s *primarySource[T]) checkKey(key string) error { return s.client.CheckKey(key) }

func (s *primarySource[T]) confirm(ctx context.Context, key string) (entity.Presence, error) {
	return s.client.Confirm(ctx, key)
}

func (s *primarySource[T]) encode(obj runtime.Object) (document []byte, err error) {
	err = guard(func() (err error) { // the user's types may have methods for it
		document, err = s.client.DocumentOf(obj.(T))
		return err
	})
	return document, err
}

func (s *primarySource[T]) updateStatus(ctx context.Context, obj entity.IEntity) error {
	typed, err := s.typed(obj)
	if err != nil {
		return err
	}
	return s.client.UpdateStatus(ctx, typed)
}

func (s *primarySource[T]) statusChange(obj entity.IEntity) (*entity.StatusChange, error) {
	typed, err := s.typed(obj)
	if err != nil {
		return nil, err
	}
	return s.client.StatusChange(typed)
}

func (s *primarySource[T]) typed(obj entity.IEntity) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("%T is no %s: its type is %T", obj, s.client.Kind(), typed)
	}
	return typed, nil
}

func (s *primarySource[T]) stream() streamIdentity {
	status := s.informer().Status()
	now := streamIdentity{
		Created: entity.StreamIdentity(status.StreamCreated),
		Changes: status.StreamChanges,
		Highest: s.informer().Cursor(),
	}
	if status.Relisting {
		now.Highest = 0 // on the way from one stream to another: not whole
	}
	return now
}

func (s *primarySource[T]) streamID() string {
	created := s.informer().Status().StreamCreated
	if known := s.identity.Load(); known != nil && known.created.Equal(created) {
		return known.id
	}
	known := &knownStream{created: created, id: entity.StreamIdentity(created)}
	s.identity.Store(known)
	return known.id
}

func (s *primarySource[T]) await(ctx context.Context, sequence uint64) error {
	return s.informer().WaitCursor(ctx, sequence)
}

// knownStream is a stream's identity, formatted once.
type knownStream struct {
	created time.Time
	id      string
}

func (s *primarySource[T]) vanishings() *vanishings { return &s.vanished }

// vanishing is a delete that this process saw.
type vanishing struct {
	object    metav1.Object // as it was last known
	evidenced bool
	// resolved is for a document that did not decode and is gone, of which nobody said how: the leader may have a marker.
	resolved bool
}

// vanishings are the deletes seen and not yet torn down.
type vanishings struct{ keyed[vanishing] }

// noteResolved notes what is not known better.
func (v *vanishings) noteResolved(key string) {
	if _, known := v.get(key); !known {
		v.put(key, vanishing{resolved: true})
	}
}

package source

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Listener hears of the documents of primaries and of their records. passes asks the predicates whether the event may
// make the key due.
type Listener interface {
	Trail(key string) *loops.Trail // of Enqueuer, as are the next
	Caused(key string, c *causes.Cause)
	NotCaused(key string, c *causes.Cause)
	Added(key string, initial bool, passes func() bool)
	Changed(key string, passes func() bool)
	Deleted(key string, last metav1.Object, deletion natsinformer.Deletion, passes func() bool)
	// Undecodable is told of a document that does not decode; Decodable that it decodes again, or is gone.
	Undecodable(ctx context.Context, key string, err error)
	Decodable(key string, exists bool)
	// RecordChanged is told of a record that came or was written, of reserved keys too.
	RecordChanged(record any)
	// RecordDeleted is told of a record that was deleted, by hand or at the end of a teardown.
	RecordDeleted(key string, exists bool, record any)
	// RecordReadable is told of a record that was unreadable and is mended, or gone.
	RecordReadable(key string)
	// Reserved is told of each change of a reserved key of the status bucket; value is nil for a delete.
	Reserved(name string, value []byte)
}

// Primary is the source of the primary's documents. Records are not watched as a reason to reconcile, so that a
// controller never wakes itself; only a record that was deleted is told of.
type Primary[T entity.IEntity] struct {
	*NATS[T]
	events   *Events // for its predicates
	listener Listener
	records  bool
	identity atomic.Pointer[formattedIdentity]
	cache    atomic.Pointer[natsinformer.Informer] // from Start on
}

// NewPrimary makes the source of a controller's primaries. Without records their changes are not listened to. The
// caches keep what is of division; nil: all.
func NewPrimary[T entity.IEntity](
	client entity.IEntityClient[T], listener Listener, predicates Predicates, records bool,
	changed func(context.Context, Source), traced bool, division *entity.Division,
) *Primary[T] {
	s := &Primary[T]{
		NATS:     NewNATS(client, NATSConfig{Role: "primary", Changed: changed, Traced: traced, Division: division}),
		listener: listener, records: records,
	}
	s.events = &Events{Source: s, Predicates: predicates}
	return s
}

// Start implements Source.
func (s *Primary[T]) Start(ctx context.Context) error {
	s.keepInformer() // for the hooks, which come from within the client
	hooks := entity.Hooks{
		Invalid:  func(key string, _ uint64, err error) { s.listener.Undecodable(ctx, key, err) },
		Resolved: func(key string) { s.listener.Decodable(key, s.Exists(key)) },
		Reserved: func(name string, _ uint64, value []byte) { s.listener.Reserved(name, value) },
		// Another replica works at these.
		Apart:     func(key string, _ entity.ApartChange) { s.listener.Added(key, false, never) },
		ApartGone: func(key string, how natsinformer.Deletion) { s.listener.Deleted(key, nil, how, never) },
	}
	if s.records {
		hooks.Readable = s.listener.RecordReadable
		hooks.ApartRecord = func(record *entity.RecordObject, gone bool) {
			if _, key, _ := entity.RecordOf(record); gone {
				s.listener.RecordDeleted(key, s.Exists(key), record)
			} else {
				s.listener.RecordChanged(record)
			}
		}
	}
	err := s.acquire(ctx, hooks)
	if err != nil {
		return err
	}
	s.keepInformer() // it was another one if its last user stopped just then
	err = s.handlers.Add(s.informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { s.added(ctx, obj.(metav1.Object), initial) },
		UpdateFunc: func(oldObj, newObj any) { s.changed(ctx, oldObj.(metav1.Object), newObj.(metav1.Object)) },
		DeleteFunc: func(obj any) { s.deleted(ctx, obj) },
	})
	if err != nil || !s.records {
		return err
	}
	return s.handlers.Add(s.port.Records().Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(record any, _ bool) { s.listener.RecordChanged(record) },
		UpdateFunc: func(_, record any) { s.listener.RecordChanged(record) },
		DeleteFunc: func(record any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(record)
			if err == nil && !IsReserved(key) {
				s.listener.RecordDeleted(key, s.Exists(key), record)
			}
		},
	})
}

func (s *Primary[T]) added(ctx context.Context, obj metav1.Object, initial bool) {
	key := ObjectKey(obj)
	s.tell(key, nil, obj)
	s.listener.Added(key, initial, s.causedUnless(key, obj, func() bool {
		return s.events.Passes(ctx, func() bool { return s.events.Predicates.Create(obj) })
	}))
}

func (s *Primary[T]) changed(ctx context.Context, before, after metav1.Object) {
	if before == after {
		return // nothing was read: the informer's resync, which is off, since ours is the engine's
	}
	key := ObjectKey(after)
	s.tell(key, before, after)
	s.listener.Changed(key, s.causedUnless(key, after, func() bool {
		return askedOfRuntime(before, after) ||
			s.events.Passes(ctx, func() bool { return s.events.Predicates.Update(before, after) })
	}))
}

// causedUnless tells the listener of the write that an event is of, before it is told of the event, and takes that back
// if the event does not pass.
func (s *Primary[T]) causedUnless(key string, obj metav1.Object, passes func() bool) func() bool {
	c := s.seen.Of(s.client.Config().Bucket, obj)
	if c == nil {
		return passes
	}
	s.listener.Caused(key, c)
	return func() bool {
		pass := passes()
		if !pass {
			s.listener.NotCaused(key, c)
		}
		return pass
	}
}

func (s *Primary[T]) deleted(ctx context.Context, gone any) {
	obj, ok := MetaObject(gone)
	if !ok {
		return
	}
	key := ObjectKey(obj)
	s.listener.Caused(key, s.seen.Of(s.client.Config().Bucket, obj)) // a teardown is owed, whatever predicates say
	s.listener.Deleted(key, obj, natsinformer.DeleteOf(obj), func() bool {
		return s.events.Passes(ctx, func() bool { return s.events.Predicates.Delete(obj) })
	})
}

// Confirm asks the leader of the primaries' stream whether a key has a document.
func (s *Primary[T]) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	return s.port.Confirm(ctx, key)
}

// UpdateStatus is the client's, for an object of the primary's type.
func (s *Primary[T]) UpdateStatus(ctx context.Context, obj entity.IEntity) error {
	typed, err := s.typed(obj)
	if err != nil {
		return err
	}
	return s.client.UpdateStatus(ctx, typed)
}

// StatusChange is the client's, for an object of the primary's type.
func (s *Primary[T]) StatusChange(obj entity.IEntity) (*entity.StatusChange, error) {
	typed, err := s.typed(obj)
	if err != nil {
		return nil, err
	}
	return s.port.StatusChange(typed)
}

func (s *Primary[T]) typed(obj entity.IEntity) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("%T is no %s: its type is %T", obj, s.client.Kind(), typed)
	}
	return typed, nil
}

// Stream describes the stream that the cache reflects.
type Stream struct {
	Created string // its identity, as records keep it
	Highest uint64 // up to which sequence the cache is complete; 0 on the way from one stream to another
	Changes uint64 // how often the informer noticed another stream since it started
}

// Stream is the stream that the cache reflects now.
func (s *Primary[T]) Stream() Stream {
	status := s.informer().Status()
	now := Stream{
		Created: s.identityOf(status.StreamCreated),
		Changes: status.StreamChanges,
		Highest: s.informer().Cursor(),
	}
	if status.Relisting {
		now.Highest = 0
	}
	return now
}

// formattedIdentity is a stream's identity, formatted once.
type formattedIdentity struct {
	created time.Time
	id      string
}

// StreamID is the part of the stream's identity that records keep.
func (s *Primary[T]) StreamID() string {
	return s.identityOf(s.informer().Status().StreamCreated)
}

func (s *Primary[T]) identityOf(created time.Time) string {
	if known := s.identity.Load(); known != nil && known.created.Equal(created) {
		return known.id
	}
	known := &formattedIdentity{created: created, id: entity.StreamIdentity(created)}
	s.identity.Store(known)
	return known.id
}

// Watches reports whether the cache has begun to watch. Before, it lists with a consumer that then goes.
func (s *Primary[T]) Watches() bool { return s.informer().Status().Resumes > 0 }

// Await waits until the cache of documents has reached a sequence of the stream.
func (s *Primary[T]) Await(ctx context.Context, sequence uint64) error {
	return s.informer().WaitCursor(ctx, sequence)
}

package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nagi-runtime/nagi/natsinformer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// NATS is a source of the documents of a client, and of their records unless it is the primary.
type NATS[T entity.IEntity] struct {
	NATSConfig
	Names
	client entity.IEntityClient[T] // the user's, who may have overridden a method
	port   entity.EnginePort[T]    // of the client
	sink   Sink

	handlers Handlers
	release  []func()
	health   health.Errors // by bucket
	settings health.Errors // likewise
	unowned  atomic.Bool   // an entity was written without an owner
	watched  atomic.Pointer[watched]
	seen     *causes.Seen // nil unless Traced
}

// NATSConfig says what a source in NATS is for.
type NATSConfig struct {
	Role    string                              // in its name: "Owns"
	Owner   string                              // the kind of the controller's primaries
	Owned   bool                                // cascade and sweep delete the entities
	Prune   bool                                // what a reconcile does not want any more goes
	Open    bool                                // the entities may name owners in other namespaces
	Late    bool                                // the controller works without it until it has synced
	Joined  bool                                // predicates or the mapper want to see the status too
	Changed func(ctx context.Context, s Source) // Err has another answer
	Resume  func(key string)                    // makes a primary due whose attempt has failed; nil: no key waits
	Traced  bool                                // an observer wants to know the causes of events

	Division *entity.Division // what of the documents the caches keep; nil: all
}

// NewNATS makes a source that tells the sink of the entities of a client. The sink is set with SetSink.
func NewNATS[T entity.IEntity](client entity.IEntityClient[T], config NATSConfig) *NATS[T] {
	s := &NATS[T]{NATSConfig: config, client: client, port: client.EnginePort()}
	if s.Traced {
		s.seen = &causes.Seen{}
	}
	return s
}

// SetSink says who takes the events. It must be called before Start.
func (s *NATS[T]) SetSink(sink Sink) { s.sink = sink }

// String is the name of the source in logs, errors and Stats.
func (s *NATS[T]) String() string {
	return fmt.Sprintf("%s %s (bucket %s)", s.Role, s.client.Kind(), s.client.Config().Bucket)
}

// Start implements Source.
func (s *NATS[T]) Start(ctx context.Context) error {
	if err := s.acquire(ctx, entity.Hooks{
		Apart:     func(key string, change entity.ApartChange) { s.left(ctx, key, change) },
		ApartGone: func(key string, _ natsinformer.Deletion) { s.freed(key) },
	}); err != nil {
		return err
	}
	err := s.handlers.Add(s.client.Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			s.sink.Created(s.caused(ctx, obj), s.withStatus(obj), initial)
			if s.Division != nil && !initial { // it may have been another's
				s.freed(ObjectKey(obj.(metav1.Object)))
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			s.sink.Updated(s.caused(ctx, newObj), s.withStatus(oldObj), s.withStatus(newObj))
			if after := newObj.(metav1.Object); s.IsAwaited(after) && owner.Changed(oldObj.(metav1.Object), after) {
				s.freed(ObjectKey(after))
			}
		},
		DeleteFunc: func(obj any) {
			if _, ok := obj.(T); ok {
				obj = s.withStatus(obj)
			}
			s.sink.Deleted(s.caused(ctx, obj), obj)
			if gone, ok := MetaObject(obj); ok {
				s.freed(ObjectKey(gone))
			}
		},
	})
	if err != nil || s.port.Records() == nil {
		return err
	}
	return s.handlers.Add(s.port.Records().Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			// The documents may have been listed before the records: who looks at the status has seen them without.
			if !initial || s.Joined {
				s.statusChanged(ctx, nil, obj)
			}
		},
		UpdateFunc: func(before, after any) { s.statusChanged(ctx, before, after) },
		DeleteFunc: func(obj any) { s.statusChanged(ctx, obj, nil) },
	})
}

// left is for an entity that another primary owns by now, at which another replica works. To the one that owned it,
// that is as if it had been deleted.
func (s *NATS[T]) left(ctx context.Context, key string, change entity.ApartChange) {
	if change.Before != nil {
		if _, owner, _ := entity.OwnerOf(change.Before); s.wants(owner) {
			s.sink.Deleted(ctx, change.Before)
		}
	}
	if change.OwnerChanged {
		s.freed(key)
	}
}

func (s *NATS[T]) parts() *parts.Parts {
	if s.Division == nil {
		return nil
	}
	return s.Division.Parts
}

// freed is for an entity that is gone, or that another owns by now.
func (s *NATS[T]) freed(object string) {
	if s.Resume == nil {
		return
	}
	for _, key := range s.Freed(object) {
		s.Resume(key)
	}
}

// acquire starts the client's caches and listens to their health.
func (s *NATS[T]) acquire(ctx context.Context, hooks entity.Hooks) error {
	hooks.Error = func(bucket string, err error) {
		if err != nil {
			err = fmt.Errorf("bucket %s: %w", bucket, err)
		}
		s.health.Set(bucket, err)
		s.Changed(ctx, s)
	}
	hooks.Settings = func(bucket string, err error) {
		s.settings.Set(bucket, err)
		s.Changed(ctx, s)
	}
	if s.seen != nil {
		hooks.Arrived = s.seen.Note
	}
	if s.port.Divided() != s.parts() {
		return fmt.Errorf("%s: the client is one of a controller with WithSlotCaches, whose caches hold what belongs "+
			"to the keys of one replica alone: make a client of its own for it", s)
	}
	s.release = append(s.release, s.port.Subscribe(hooks))
	stop, err := s.port.Start()
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	s.release = append(s.release, stop)
	now := watched{documents: watch(s.client.Informer())}
	if records := s.port.Records(); records != nil {
		now.records, now.statusBucket = watch(records.Informer()), records.Bucket()
	}
	s.watched.Store(&now)
	return nil
}

// Synced implements Source.
func (s *NATS[T]) Synced() []cache.DoneChecker { return s.handlers.Synced() }

// Err implements Source.
func (s *NATS[T]) Err() error { return s.health.Err() }

// Settings implements Cached.
func (s *NATS[T]) Settings() error { return s.settings.Err() }

// IsOptional implements Source.
func (s *NATS[T]) IsOptional() bool { return s.Late }

// Outdated implements deletes.Source. What it does not show before it has synced may exist.
func (s *NATS[T]) Outdated() error {
	return NotSynced(s)
}

// Stop implements Source.
func (s *NATS[T]) Stop() {
	s.handlers.Remove()
	for i := len(s.release) - 1; i >= 0; i-- {
		s.release[i]()
	}
	s.release = nil
	s.Undivide()
}

// Rights are those that the source needs in NATS: to read documents and statuses and, of what is owned, to write
// documents.
func (s *NATS[T]) Rights(opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	cfg := s.client.Config()
	set, err := entity.Permissions(cfg, entity.RoleReader, append(opts, entity.WithConsumerDelete())...)
	if err != nil || !s.Owned {
		return set, err
	}
	writes, err := entity.Permissions(cfg, entity.RoleWriter, opts...)
	return set.Join(writes), err
}

// Owns implements Owned.
func (s *NATS[T]) Owns() bool { return s.Owned }

// Deletable implements Owned.
func (s *NATS[T]) Deletable() bool { return s.Owned }

// Resource implements owner.Source.
func (s *NATS[T]) Resource() owner.Resource { return owner.ResourceOfBucket(s.client.Config().Bucket) }

// OwnedBy implements Owned.
func (s *NATS[T]) OwnedBy(key string) ([]metav1.Object, error) {
	if err := NotSynced(s); err != nil {
		return nil, err // the lister would wait for it
	}
	entities, err := s.client.Lister().OwnedBy(s.Owner, key)
	if errors.Is(err, entity.ErrNotCached) {
		return s.readOwned(key)
	}
	objects := make([]metav1.Object, len(entities))
	for i, obj := range entities {
		objects[i] = obj
	}
	return objects, err
}

// noteUnowned reports, once, that an entity was written without an owner.
func (s *NATS[T]) noteUnowned() (first bool) { return s.unowned.CompareAndSwap(false, true) }

// Prunes implements lifecycle.Prunable.
func (s *NATS[T]) Prunes() bool { return s.Prune }

// CheckKey returns an error for a key that no entity of the source can have.
func (s *NATS[T]) CheckKey(key string) error { return s.port.CheckKey(key) }

// Live implements lifecycle.Prunable. A delete asks for the revision of obj, so the leader says whether obj is old.
func (s *NATS[T]) Live(_ context.Context, obj metav1.Object) (metav1.Object, error) { return obj, nil }

// AnyNamespace implements owner.Source.
func (s *NATS[T]) AnyNamespace() bool { return s.Open }

// Place implements Placed.
func (s *NATS[T]) Place() Place { return Place{Bucket: s.client.Config().Bucket} }

// OwnedLive implements Owned: a bucket is listed as a whole.
func (s *NATS[T]) OwnedLive(context.Context, string) ([]metav1.Object, error) { return nil, nil }

// WrittenBy implements Owned: a document does not tell.
func (s *NATS[T]) WrittenBy(metav1.Object, string) bool { return false }

// Remove implements deletes.Source. It deletes the document if it is still at the revision that was seen.
func (s *NATS[T]) Remove(ctx context.Context, permit deletes.Permit) error {
	obj := permit.Object()
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("delete %s: resourceVersion %q is not a revision: %w",
			s.client.Kind(), obj.GetResourceVersion(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, deletes.SentFor)
	defer cancel()
	err = s.client.Delete(ctx, ObjectKey(obj), entity.IfRevision(revision))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

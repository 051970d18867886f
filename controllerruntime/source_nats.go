package controllerruntime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/health"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"strconv"
)

// Owns makes the entities of client secondaries of the primary: an event of one, or of its status, enqueues the primary
// it names as its owner, and cascade and sweep delete those whose owner is gone.
func Owns[T entity.IEntity](client entity.IEntityClient[T], opts ...SourceOption) Option {
	return func(o *options) error {
		if isNil(client) {
			return errors.New("Owns(nil): a client is needed")
		}
		so, err := natsSourceOptions("Owns", client.Kind(), opts)
		if err != nil {
			return err
		}
		o.sources = append(o.sources, func(e *engine) (source, error) {
			s := newNatsSource(e, "Owns", client)
			s.owned, s.joined = true, len(so.predicates) > 0
			s.events = &events{engine: e, source: s, predicates: so.predicates, keys: e.owners, operation: OperationSecondary}
			return s, nil
		})
		return nil
	}
}

// Watches makes the entities of client tertiaries: an event of one, or of its status, enqueues the primaries that keys
// returns for it, on an update for the old and for the new one. keys sees the status too, and must not modify the object;
// if it fails it is called again, with backoff, for the same event. It must return soon after its context ended: the end of
// Run waits for it, but not for ever.
func Watches[T entity.IEntity](client entity.IEntityClient[T], keys func(context.Context, T) ([]string, error), opts ...SourceOption) Option {
	return func(o *options) error {
		if isNil(client) || keys == nil {
			return errors.New("Watches: a client and a function that returns keys are needed")
		}
		so, err := natsSourceOptions("Watches", client.Kind(), opts)
		if err != nil {
			return err
		}
		typed := func(ctx context.Context, obj metav1.Object) ([]string, error) { return keys(ctx, obj.(T)) }
		o.sources = append(o.sources, func(e *engine) (source, error) {
			s := newNatsSource(e, "Watches", client)
			s.joined = true
			s.events = &events{engine: e, source: s, predicates: so.predicates, keys: typed, operation: OperationTertiary}
			return s, nil
		})
		return nil
	}
}

func natsSourceOptions(role, kind string, opts []SourceOption) (sourceOptions, error) {
	so, err := applySourceOptions(opts)
	if err != nil {
		return so, fmt.Errorf("%s(%s): %w", role, kind, err)
	}
	if so.deleter != nil {
		return so, fmt.Errorf("%s(%s): WithDeleter is for Kubernetes sources; NATS entities are deleted through their client", role, kind)
	}
	if err := so.onlyForKube(); err != nil {
		return so, fmt.Errorf("%s(%s): %w", role, kind, err)
	}
	return so, nil
}

// natsSource is the documents of a client, and their records unless it is the primary.
type natsSource[T entity.IEntity] struct {
	engine *engine
	role   string
	client entity.IEntityClient[T]
	events sink
	owned  bool
	joined bool // predicates or the mapper want to see the status too

	handlers handlers
	release  []func()
	health   health.Errors // by bucket
}

func newNatsSource[T entity.IEntity](e *engine, role string, client entity.IEntityClient[T]) *natsSource[T] {
	return &natsSource[T]{engine: e, role: role, client: client}
}

func (s *natsSource[T]) String() string {
	return fmt.Sprintf("%s %s (bucket %s)", s.role, s.client.Kind(), s.client.Config().Bucket)
}

func (s *natsSource[T]) start(ctx context.Context) error {
	if err := s.acquire(ctx, entity.Hooks{}); err != nil {
		return err
	}
	err := s.handlers.add(s.client.Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { s.events.created(ctx, s.withStatus(obj), initial) },
		UpdateFunc: func(oldObj, newObj any) {
			s.events.updated(ctx, s.withStatus(oldObj), s.withStatus(newObj))
		},
		DeleteFunc: func(obj any) {
			if _, ok := obj.(T); ok {
				obj = s.withStatus(obj)
			}
			s.events.deleted(ctx, obj)
		},
	})
	if err != nil || s.client.Records() == nil {
		return err
	}
	return s.handlers.add(s.client.Records().Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			// The documents may have been listed before the records: who looks at the status has seen them without.
			if !initial || s.joined {
				s.statusChanged(ctx, nil, obj)
			}
		},
		UpdateFunc: func(before, after any) { s.statusChanged(ctx, before, after) },
		DeleteFunc: func(obj any) { s.statusChanged(ctx, obj, nil) },
	})
}

// acquire starts the client's caches and listens to their health.
func (s *natsSource[T]) acquire(ctx context.Context, hooks entity.Hooks) error {
	hooks.Error = func(bucket string, err error) {
		if err != nil {
			err = fmt.Errorf("bucket %s: %w", bucket, err)
		}
		s.health.Set(bucket, err)
		s.engine.health.Change(ctx, s.String(), s.err)
	}
	s.release = append(s.release, s.client.Subscribe(hooks))
	stop, err := s.client.Start()
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	s.release = append(s.release, stop)
	return nil
}

// statusChanged treats a change of an entity's record, of which before or after may be nil, as a change of the entity. What
// the entity's own controller notes in the record for itself is none.
func (s *natsSource[T]) statusChanged(ctx context.Context, before, after any) {
	old, key, _ := entity.RecordOf(before)
	current, newKey, ok := entity.RecordOf(after)
	if ok {
		key = newKey
	}
	if key == "" || s.engine.reserved(key) || sameToOthers(old, current) {
		return
	}
	cached, exists, err := s.client.Informer().GetStore().GetByKey(key)
	if err != nil || !exists {
		return
	}
	if !s.joined {
		obj := cached.(metav1.Object)
		s.events.updated(ctx, obj, obj)
		return
	}
	obj := cached.(T)
	s.events.updated(ctx, s.client.WithStatusOf(obj, before), s.client.WithStatusOf(obj, after))
}

// sameToOthers tells whether two records say the same about their entity; nil says nothing.
func sameToOthers(a, b *entity.Record) bool {
	if a == nil {
		a = &entity.Record{}
	}
	if b == nil {
		b = &entity.Record{}
	}
	return a.ObservedRevision == b.ObservedRevision && bytes.Equal(a.Status, b.Status) && equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}

// withStatus puts document and status together, where somebody looks at the status.
func (s *natsSource[T]) withStatus(document any) metav1.Object {
	if !s.joined {
		return document.(metav1.Object)
	}
	obj := document.(T)
	var record any
	if records := s.client.Records(); records != nil {
		record, _, _ = records.Informer().GetStore().GetByKey(objectKey(obj))
	}
	return s.client.WithStatusOf(obj, record)
}

func (s *natsSource[T]) synced() []cache.DoneChecker { return s.handlers.synced() }
func (s *natsSource[T]) err() error                  { return s.health.Err() }

func (s *natsSource[T]) stop() {
	s.handlers.remove()
	for i := len(s.release) - 1; i >= 0; i-- {
		s.release[i]()
	}
	s.release = nil
}

func (s *natsSource[T]) kind() string    { return s.client.Kind() }
func (s *natsSource[T]) owns() bool      { return s.owned }
func (s *natsSource[T]) deletable() bool { return s.owned }

func (s *natsSource[T]) ownedBy(key string) ([]metav1.Object, error) {
	entities, err := s.client.Lister().OwnedBy(s.engine.kind, key)
	objects := make([]metav1.Object, len(entities))
	for i, obj := range entities {
		objects[i] = obj
	}
	return objects, err
}

func (s *natsSource[T]) all() []metav1.Object { return storeObjects(s.client.Informer().GetStore()) }

func (s *natsSource[T]) remove(ctx context.Context, obj metav1.Object) error {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("delete %s: resourceVersion %q is not a revision: %w", s.client.Kind(), obj.GetResourceVersion(), err)
	}
	err = s.client.Delete(ctx, objectKey(obj), entity.IfRevision(revision))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func objectKey(obj metav1.Object) string {
	return cache.ObjectName{Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()
}

func storeObjects(store cache.Store) []metav1.Object {
	items := store.List()
	objects := make([]metav1.Object, 0, len(items))
	for _, item := range items {
		if obj, ok := item.(metav1.Object); ok {
			objects = append(objects, obj)
		}
	}
	return objects
}

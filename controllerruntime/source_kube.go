package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// ownerIndex indexes a Kubernetes informer by owner, as "kind/key".
const ownerIndex = "nagi/owner"

// OwnsKube makes the objects of a Kubernetes informer secondaries of the primary. The informer is the user's to start
// and to stop; it may be one of typed objects, of unstructured ones, or of metadata only. With a deleter (WithDeleter) cascade
// and sweep delete those whose owner is gone; without one they are left. Before a teardown ends, a KubeDeleter asks the API
// server, in all namespaces, for what the cache is behind with; a user who may not list there has to rely on the cache.
//
// Who is the owner says an annotation, and Kubernetes copies annotations: those of a Deployment to its ReplicaSets. In an
// informer of such copies they count as secondaries, and go with the primary.
//
// To be able to say why an informer does not sync or falls behind, New sets its watch error handler, if it has not been
// started; see WithWatchErrorHandler.
func OwnsKube(informer cache.SharedIndexInformer, opts ...SourceOption) Option {
	return func(o *engineOptions) error {
		if guard.IsNil(informer) {
			return errors.New("OwnsKube(nil): an informer is needed")
		}
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("OwnsKube: %w", err)
		}
		if d, ok := so.deleter.(*kubeDeleter); ok && d.invalid != nil {
			return fmt.Errorf("OwnsKube: %w", d.invalid)
		}
		if so.deleter != nil {
			o.teardownOptions = append(o.teardownOptions, "WithDeleter")
		}
		o.sources = append(o.sources, func(e *engine) (source.Source, error) {
			s := newKubeSource(e, "OwnsKube", informer, so)
			s.indexed = true
			s.events = e.eventsOf(s, so.predicates, e.owners, OperationSecondary)
			return s, nil
		})
		return nil
	}
}

// WatchesKube makes the objects of a Kubernetes informer tertiaries: an event of one enqueues the primaries that keys
// returns for it, on an update for the old and for the new one. keys must not modify the object; if it fails it is
// called again, with backoff, for the same event.
func WatchesKube(informer cache.SharedIndexInformer, keys func(context.Context, metav1.Object) ([]string, error), opts ...SourceOption) Option {
	return func(o *engineOptions) error {
		if guard.IsNil(informer) || keys == nil {
			return errors.New("WatchesKube: an informer and a function that returns keys are needed")
		}
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("WatchesKube: %w", err)
		}
		if so.deleter != nil {
			return errors.New("WatchesKube: WithDeleter is for OwnsKube; what is only watched is never deleted")
		}
		o.sources = append(o.sources, func(e *engine) (source.Source, error) {
			s := newKubeSource(e, "WatchesKube", informer, so)
			s.events = e.eventsOf(s, so.predicates, keys, OperationTertiary)
			return s, nil
		})
		return nil
	}
}

// kubeSource is the objects of an informer that the user runs.
type kubeSource struct {
	engine   *engine
	name     string
	informer cache.SharedIndexInformer
	events   source.Sink
	deleter  Deleter
	indexed  bool
	handlers source.Handlers
	watching *kubeHealth
	blocked  *blockedKeys
}

func newKubeSource(e *engine, role string, informer cache.SharedIndexInformer, so sourceOptions) *kubeSource {
	s := &kubeSource{engine: e, informer: informer, deleter: so.deleter, blocked: newBlockedKeys()}
	s.name = fmt.Sprintf("%s %s (informer %d)", role, informerName(informer, so), len(e.sources))
	errors := findWatchErrors(informer)
	if errors == nil && so.keepWatchErrorHandler {
		errors = newWatchErrors(informer) // of which only the controller itself knows
	} else if errors == nil {
		errors = watchErrorsOf(informer)
	}
	if d, ok := so.deleter.(listAsker); ok {
		errors.canAsk(d.WhyNotListed)
	}
	s.watching = newKubeHealth(informer, errors, so.watchErrorHandler)
	return s
}

// informerName says what an informer is over, as well as it can be known: its own name is the Go type of its objects, which
// for unstructured and metadata-only ones says nothing.
func informerName(informer cache.SharedIndexInformer, so sourceOptions) string {
	if so.name != "" {
		return so.name
	}
	if d, ok := so.deleter.(resourceNamer); ok {
		return d.ResourceName()
	}
	goType := informer.HasSyncedChecker().Name()
	return goType[strings.LastIndexAny(goType, " .*")+1:]
}

func (s *kubeSource) String() string { return s.name }

func (s *kubeSource) Start(ctx context.Context) error {
	if s.informer.IsStopped() {
		return fmt.Errorf("%s: the informer has been stopped already and cannot run again; give the controller a new one", s)
	}
	s.watching.start(ctx, kubeHealthEvents{
		changed:  func() { s.engine.sourceHealth(ctx, s) },
		answered: func() { s.engine.kubeAnswers(s.watching.errors) },
		stopping: s.engine.leadership.stopping.Load,
	})
	if s.indexed {
		if err := addOwnerIndex(s.informer); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return s.handlers.Add(s.informer, cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if obj, ok := source.MetaObject(obj); ok {
				s.events.Created(ctx, obj, initial)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := source.MetaObject(oldObj)
			after, ok2 := source.MetaObject(newObj)
			if ok1 && ok2 {
				s.events.Updated(ctx, before, after)
				if s.blocked.wanted(source.ObjectKey(after)) && owner.Changed(before, after) {
					s.unblock(after)
				}
			}
		},
		DeleteFunc: func(gone any) {
			s.events.Deleted(ctx, gone)
			if obj, ok := source.MetaObject(gone); ok {
				s.unblock(obj)
			}
		},
	})
}

// addOwnerIndex lets several controllers share an informer: the second finds the index of the first.
func addOwnerIndex(informer cache.SharedIndexInformer) error {
	if hasOwnerIndex(informer) {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{ownerIndex: func(obj any) ([]string, error) {
		if obj, ok := source.MetaObject(obj); ok {
			if kind, key, ok := entity.OwnerOf(obj); ok {
				return []string{kind + "/" + key}, nil
			}
		}
		return nil, nil
	}})
	if err != nil && hasOwnerIndex(informer) {
		return nil // another controller that starts now was faster
	}
	return err
}

// hasOwnerIndex asks the index itself: the list of indexers is a map that may be written at the same time.
func hasOwnerIndex(informer cache.SharedIndexInformer) bool {
	_, err := informer.GetIndexer().ByIndex(ownerIndex, "")
	return err == nil
}

func (s *kubeSource) Synced() []cache.DoneChecker { return s.handlers.Synced() }
func (s *kubeSource) Err() error                  { return s.watching.err() }
func (s *kubeSource) Owns() bool                  { return s.indexed }
func (s *kubeSource) Deletable() bool             { return s.deleter != nil }

func (s *kubeSource) Stop() {
	s.handlers.Remove()
	s.watching.stop()
}

// WhyNotSynced asks where the informer has not told.
func (s *kubeSource) WhyNotSynced(ctx context.Context) error {
	if informer, ok := s.informer.(interface{ HasStarted() bool }); ok && !informer.HasStarted() {
		return errors.New("the informer was not started: run it, or start its factory")
	}
	if asks := s.watching.errors.asker(); asks != nil {
		return asks(ctx)
	}
	return nil
}

// OwnedBy is what the cache has, also where the own deletes of a handle say that it is going: a teardown waits until the
// cache shows it gone. And it is what the handle wrote that the cache does not have yet.
func (s *kubeSource) OwnedBy(key string) ([]metav1.Object, error) {
	var unseen []metav1.Object
	if d, ok := s.deleter.(unseenOwner); ok {
		unseen = d.Unseen(s.engine.kind, key) // before the cache is read, which may have it by then
	}
	items, err := s.informer.GetIndexer().ByIndex(ownerIndex, s.engine.kind+"/"+key)
	objects := unseen
	for _, item := range items {
		obj, ok := source.MetaObject(item)
		if ok && !slices.ContainsFunc(unseen, func(own metav1.Object) bool { return source.ObjectKey(own) == source.ObjectKey(obj) }) {
			objects = append(objects, obj)
		}
	}
	return objects, err
}

func (s *kubeSource) All() []metav1.Object { return source.StoreObjects(s.informer.GetStore()) }

func (s *kubeSource) Remove(ctx context.Context, obj metav1.Object) error {
	err := guard.Call(func() error { return s.deleter.Delete(ctx, obj) })
	if err != nil && (!apierrors.IsNotFound(err) || kubeerrors.UnknownResource(err)) {
		return s.watching.errors.noteUnanswered(err)
	}
	uid, key := obj.GetUID(), source.ObjectKey(obj)
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(s.informer, key, ownwrites.Polled(func() bool {
			item, exists, err := s.informer.GetStore().GetByKey(key)
			now, ok := source.MetaObject(item)
			return err != nil || !exists || !ok || now.GetUID() != uid || now.GetDeletionTimestamp() != nil
		}))
	}
	return nil
}

// OwnedLive asks the API server for what a primary owns and the cache does not show.
func (s *kubeSource) OwnedLive(ctx context.Context, key string) ([]metav1.Object, error) {
	asked, ok := s.deleter.(liveOwner)
	if !ok {
		return nil, nil
	}
	return asked.OwnedLive(ctx, s.engine.kind, key)
}

// Package kubesource has the sources of events in Kubernetes informers, and follows whether such an informer works.
//
// The rule: the user runs the informer. A source adds its handlers and an index, and at the end takes off the handlers
// that it added. If the informer fails the source is degraded and the controller goes on. So it is if the informer's
// view is old; then nothing is to be deleted because of what it shows. A source tells its controller over [Host], and
// deletes over [Deleter].
package kubesource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Host is the controller that a source belongs to. Its methods may be called concurrently.
type Host interface {
	// SourceChanged is told that Err of a source has another answer.
	SourceChanged(ctx context.Context, s source.Source)
	// Resume makes a primary due whose attempt has failed: the reason may be gone.
	Resume(key string)
	// Answered is told that an API server was away and answers again.
	Answered(server kubeapi.Server)
	// Claim says what the controller's primaries own.
	Claim() owner.Claim
	// Unlisted is told that a teardown ends though the API server refuses to list what it may have left.
	Unlisted()
	// Stopping reports whether the controller is about to stop. The program may stop its informers then.
	Stopping() bool
}

// Config says what a source is for.
type Config struct {
	// Role is how the user calls the source, as "OwnsKube", and Number tells it from the others of its controller.
	Role   string
	Number int
	// Name says what the objects are. The default is the resource of the deleter, else the type of the objects.
	Name string
	// Kind is the kind of the controller's primaries, and Owned makes the objects their secondaries.
	Kind  string
	Owned bool
	// Deleter deletes objects; nil leaves them.
	Deleter Deleter
	// Prune has deleted what a reconcile does not want any more.
	Prune bool
	// Open lets objects name owners in other namespaces.
	Open bool
	// Optional has the controller work without the source until it has synced.
	Optional bool
	// WatchErrorHandler is called for each watch error until Stop, instead of client-go's handler, which logs; or nil.
	WatchErrorHandler cache.WatchErrorHandlerWithContext
	// KeepWatchErrorHandler leaves the informer's own handler alone, so that it stays untold why the informer fails,
	// unless a handle or another source has set it already.
	KeepWatchErrorHandler bool
}

// Source is the objects of an informer that the user runs.
type Source struct {
	source.Whole
	source.Names
	config   Config
	host     Host
	name     string
	what     string // the objects are
	informer cache.SharedIndexInformer
	sink     source.Sink
	handlers source.Handlers
	health   *watchHealth
	reach    reach
	scope    scope
}

// New makes a source of the objects of an informer. The sink is set with SetSink. New sets the watch error handler of
// an informer that was not started; see Config.
func New(informer cache.SharedIndexInformer, host Host, config Config) *Source {
	s := &Source{config: config, host: host, informer: informer}
	s.what = nameOf(informer, config)
	s.name = fmt.Sprintf("%s %s (informer %d)", config.Role, s.what, config.Number)
	watchErrors := s.watchErrors()
	if d, ok := config.Deleter.(Prober); ok {
		watchErrors.ProbeWith(d)
	}
	var claim func() owner.Claim
	if config.Owned {
		claim = func() owner.Claim { return host.Claim().In(s) }
	}
	s.health = newWatchHealth(informer, watchErrors, config.WatchErrorHandler, claim)
	return s
}

func (s *Source) watchErrors() *WatchErrors {
	if s.config.KeepWatchErrorHandler {
		return informers.findOrNew(s.informer)
	}
	return WatchErrorsOf(s.informer)
}

// nameOf says what an informer is over, as well as it can be known: its own name is the Go type of its objects, which
// for unstructured and metadata-only ones says nothing.
func nameOf(informer cache.SharedIndexInformer, config Config) string {
	if config.Name != "" {
		return config.Name
	}
	if d, ok := config.Deleter.(ResourceNamer); ok {
		return d.ResourceName()
	}
	goType := informer.HasSyncedChecker().Name()
	return goType[strings.LastIndexAny(goType, " .*")+1:]
}

// SetSink says who takes the events. It must be called before Start.
func (s *Source) SetSink(sink source.Sink) { s.sink = sink }

// String is the name of the source in logs, errors and Stats.
func (s *Source) String() string { return s.name }

// Start implements source.Source. A second source over the informer shares the index by owner.
func (s *Source) Start(ctx context.Context) error {
	if s.informer.IsStopped() {
		return fmt.Errorf("%s: the informer has been stopped already and cannot run again; "+
			"give the controller a new one", s)
	}
	s.health.start(ctx, healthEvents{
		changed:  func() { s.host.SourceChanged(ctx, s) },
		answered: func() { s.host.Answered(s.Server()) },
		stopping: s.host.Stopping,
	})
	if s.config.Owned {
		if err := AddOwnerIndex(s.informer); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return s.handlers.Add(s.informer, cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if obj, ok := source.MetaObject(obj); ok {
				s.scope.note(obj)
				s.sink.Created(ctx, obj, initial)
			}
		},
		UpdateFunc: func(oldObj, newObj any) { s.updated(ctx, oldObj, newObj) },
		DeleteFunc: func(gone any) { s.deleted(ctx, gone) },
	})
}

func (s *Source) updated(ctx context.Context, oldObj, newObj any) {
	before, ok1 := source.MetaObject(oldObj)
	after, ok2 := source.MetaObject(newObj)
	if !ok1 || !ok2 {
		return
	}
	s.sink.Updated(ctx, before, after)
	if s.IsAwaited(after) && owner.Changed(before, after) {
		s.freed(after)
	}
}

func (s *Source) deleted(ctx context.Context, gone any) {
	s.sink.Deleted(ctx, gone)
	if obj, ok := source.MetaObject(gone); ok {
		s.freed(obj)
	}
}

// Cause implements source.Caused. The informer's resync shows objects as they were.
func (s *Source) Cause(before, after metav1.Object) (c loops.Cause, news bool) {
	of := after
	if of == nil {
		of = before
	}
	c = loops.Cause{
		Of: s.informer, Kind: s.what, Key: source.ObjectKey(of), Before: before, After: after,
		Version: of.GetResourceVersion(),
	}
	if after == nil {
		c.Version = loops.DeletedVersion(of.GetUID())
	}
	return c, before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion()
}

// Stop implements source.Source.
func (s *Source) Stop() {
	s.handlers.Remove()
	s.health.stop()
}

// Synced implements source.Source.
func (s *Source) Synced() []cache.DoneChecker { return s.handlers.Synced() }

// Err implements source.Source.
func (s *Source) Err() error { return s.health.err() }

// IsOptional implements source.Source.
func (s *Source) IsOptional() bool { return s.config.Optional }

// Owns implements source.Owned.
func (s *Source) Owns() bool { return s.config.Owned }

// Deletable implements source.Owned.
func (s *Source) Deletable() bool { return s.config.Deleter != nil }

// Resource implements owner.Source. It is unknown where the deleter does not tell.
func (s *Source) Resource() owner.Resource { return ResourceOf(s.config.Deleter) }

// Server identifies the API server of the informer. Requests that it did not answer are marked with it.
func (s *Source) Server() kubeapi.Server { return s.health.errors.server }

// WhyNotSynced asks the API server why the informer does not sync, where the informer has not told; nil if nobody
// knows.
func (s *Source) WhyNotSynced(ctx context.Context) error {
	if informer, ok := s.informer.(interface{ HasStarted() bool }); ok && !informer.HasStarted() {
		return errors.New("the informer was not started: run it, or start its factory")
	}
	if prober := s.health.errors.prober(); prober != nil {
		_, err := prober.Probe(ctx, "", "")
		return err
	}
	return nil
}

// Outdated implements deletes.Source. What the cache shows may be older than what the API server has. Then the error is
// marked with the server: when it is over, Answered of the host is called.
func (s *Source) Outdated() error {
	if err := source.NotSynced(s); err != nil {
		return err
	}
	if err := s.health.errors.view.err(); err != nil {
		return kubeapi.MarkOutdated(err, s.Server())
	}
	return nil
}

// OwnedBy implements source.Owned. It returns what the cache has, also where a handle has deleted it: a teardown waits
// until the cache shows it gone. And it returns what a handle wrote and the cache does not have yet.
func (s *Source) OwnedBy(key string) ([]metav1.Object, error) {
	var unseen []metav1.Object
	if d, ok := s.config.Deleter.(UnseenOwner); ok {
		unseen = d.Unseen(s.config.Kind, key) // before the cache is read, which may have it by then
	}
	cached, err := Owned(s.informer, s.config.Kind, key)
	objects := unseen
	for _, obj := range cached {
		same := func(other metav1.Object) bool { return source.ObjectKey(other) == source.ObjectKey(obj) }
		if !slices.ContainsFunc(unseen, same) {
			objects = append(objects, obj)
		}
	}
	return objects, err
}

// Prunes implements lifecycle.Prunable.
func (s *Source) Prunes() bool { return s.config.Prune }

// AnyNamespace implements owner.Source.
func (s *Source) AnyNamespace() bool { return s.config.Open }

// Place implements source.Placed.
func (s *Source) Place() source.Place { return source.Place{Informer: s.informer} }

// All implements source.Owned.
func (s *Source) All() iter.Seq[metav1.Object] {
	return slices.Values(source.StoreObjects(s.informer.GetStore()))
}

// Remove implements deletes.Source.
func (s *Source) Remove(ctx context.Context, permit deletes.Permit) error {
	obj := permit.Object()
	err := guard.Call(func() error { return s.config.Deleter.Delete(ctx, obj) })
	if err != nil && (!apierrors.IsNotFound(err) || kubeapi.UnknownResource(err)) {
		return s.health.errors.NoteUnanswered(err)
	}
	uid, key := obj.GetUID(), source.ObjectKey(obj)
	s.reach.deletedIn(obj.GetNamespace())
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(s.informer, key, ownwrites.Polled(func() bool {
			item, exists, err := s.informer.GetStore().GetByKey(key)
			now, ok := source.MetaObject(item)
			return err != nil || !exists || !ok || now.GetUID() != uid || now.GetDeletionTimestamp() != nil
		}))
	}
	return nil
}

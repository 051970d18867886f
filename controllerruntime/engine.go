package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/backoff"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sync/atomic"
)

// engine is a Controller without its type parameter. Data flows one way through it: sources → queue → workers →
// reconciler → writes. Around the reconciler stand the anchor (before and after) and, for a primary that is gone, the
// teardown. Only the replica that holds the lease works.
type engine struct {
	name         string
	kind         string
	statusBucket string
	opts         options

	primary    primary
	sources    []source          // the primary first
	externals  []*externalSource // those of them that are behind APIs
	reconciler Reconciler
	queue      *queue.Queue
	mappings   *mappings
	records    *entity.Records // nil without teardown
	anchors    *anchors
	brake      *brake
	parked     parkedKeys
	written    ownWrites
	kubeAway   keyed[*watchErrors] // keys that failed because a Kubernetes API server did not answer
	cleanUps   cleanUps
	intents    intents
	stats      counters
	flights    *flights

	lastDocumentLimit int
	filtered          bool                // only a part of the bucket is ours
	unusedLeft        map[string]struct{} // see leftOwners; only the sweep's
	owedBefore        map[string]struct{} // see remindOwed; only the sweep's

	instance  atomic.Pointer[string]
	unclaimed chan struct{} // what claims the status bucket has gone
	started   atomic.Bool
	terms     terms
	standby   standby
	runs      atomic.Uint64 // numbers the reconciles that log something

	loggerKey any // under which logr keeps the logger of a context

	health        *health.Board
	recordsHealth *health.Reporter // whether records can be written
	leaseHealth   *health.Reporter // whether the lease can be read and written
}

func newEngine(name, kind string, config entity.Config, records *entity.Records, r Reconciler, opts options) *engine {
	e := &engine{name: name, kind: kind, statusBucket: config.StatusBucket, opts: opts, reconciler: r, loggerKey: loggerKey(), unclaimed: make(chan struct{}, 1)}
	e.health = health.New(e.onSourceError())
	e.recordsHealth = e.health.Reporter("records (bucket " + e.statusBucket + ")")
	e.leaseHealth = e.health.Reporter("lease (bucket " + e.statusBucket + ")")
	e.queue = queue.New(queue.Options{
		DebounceQuiet: opts.debounceQuiet, DebounceMax: opts.debounceMax,
		BackoffMin: opts.backoffMin, BackoffMax: opts.backoffMax,
	})
	if !opts.withoutTeardown {
		e.records = records
		e.flights = newFlights()
		e.lastDocumentLimit = config.LastDocumentLimit
		e.filtered = config.Filter != ">"
		e.anchors = &anchors{engine: e, backoff: backoff.New(opts.backoffMin, opts.backoffMax), refusals: backoff.New(opts.backoffMin, opts.backoffMax)}
		e.brake = newBrake(e)
	}
	return e
}

func (e *engine) addSources() error {
	e.sources = []source{e.primary}
	for _, build := range e.opts.sources {
		s, err := build(e)
		if err != nil {
			return err
		}
		e.sources = append(e.sources, s)
	}
	return nil
}

func (e *engine) ownedSources() []ownedSource {
	var owned []ownedSource
	for _, s := range e.sources[1:] {
		if s, ok := s.(ownedSource); ok && s.deletable() {
			owned = append(owned, s)
		}
	}
	return owned
}

// owners is the mapper of Owns and OwnsKube: the owner, if it is of our kind and not of another installation.
func (e *engine) owners(_ context.Context, obj metav1.Object) ([]string, error) {
	kind, key, ok := entity.OwnerOf(obj)
	if !ok || kind != e.kind || !e.wellFormed(key) {
		return nil, nil
	}
	if instance := entity.InstanceOf(obj); instance != "" && instance != e.instanceID() {
		e.stats.foreign.Add(1)
		return nil, nil
	}
	return []string{key}, nil
}

// mine tells whether the runtime may delete obj: its owner is of our kind and of this installation, for certain. Under
// the Kumori API, which never deletes by itself, an object that names no installation counts too.
func (e *engine) mine(obj metav1.Object) bool {
	kind, _, ok := entity.OwnerOf(obj)
	if !ok || kind != e.kind {
		return false
	}
	instance := entity.InstanceOf(obj)
	return instance != "" && instance == e.instanceID() || instance == "" && e.opts.withoutCascade
}

func (e *engine) instanceID() string {
	if id := e.instance.Load(); id != nil {
		return *id
	}
	return ""
}

// wellFormed tells whether the bucket can have such a key. Of one that it cannot have nothing can be read or written, so
// trying again would never end.
func (e *engine) wellFormed(key string) bool {
	return !e.reserved(key) && e.primary.checkKey(key) == nil
}

// invalid is told of a document that does not decode: its condition says so, and nothing is reconciled.
func (e *engine) invalid(ctx context.Context, key string, err error) {
	if !e.wellFormed(key) {
		e.stats.malformed.Add(1)
		klog.FromContext(ctx).Error(err, "Malformed key, ignored until it is renamed", "key", key)
		return
	}
	e.stats.invalid.Add(1)
	klog.FromContext(ctx).Error(err, "Invalid document, not reconciled until it is mended", "key", key)
	e.queue.Add(key, operation.Of(OperationPut), queue.Live)
}

// callback runs a callback of the user; its panic must not end the process.
func (e *engine) callback(ctx context.Context, name string, f func()) {
	if err := guard(func() error { f(); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Callback panicked", "callback", name)
	}
}

// onSourceError is the user's callback for what does not work; nil if there is none.
func (e *engine) onSourceError() func(ctx context.Context, name string, err error) {
	f := e.opts.onSourceError
	if f == nil {
		return nil
	}
	return func(ctx context.Context, name string, err error) {
		e.callback(ctx, "WithOnSourceError", func() { f(name, err) })
	}
}

// reservedChanged is told of changes to reserved keys in the status bucket.
func (e *engine) reservedChanged(name string, value []byte) {
	if name == reservedRelease && value != nil && e.brake != nil {
		e.brake.releaseRequested()
	}
	if (name == reservedController || name == reservedInstance) && value == nil {
		e.noteUnclaimed()
	}
}

var errNoStatusBucket = errors.New("the primary has no status bucket, so deletes that happen while the controller is down would be lost: " +
	"give its client a StatusBucket, or accept that with WithoutTeardown()")

func checkNew[T entity.IEntity](name string, primary entity.IEntityClient[T], r Reconciler, withoutTeardown bool) error {
	switch {
	case name == "":
		return errors.New("New: a controller needs a name; it is kept in the status bucket and must not change")
	case isNil(primary):
		return fmt.Errorf("New(%q): the primary's client is nil", name)
	case isNil(r):
		return fmt.Errorf("New(%q): the reconciler is nil", name)
	case primary.Records() == nil && !withoutTeardown:
		return fmt.Errorf("New(%q): %w", name, errNoStatusBucket)
	}
	return nil
}

// self stands for the controller in events about the runtime.
func (e *engine) self() *entity.Object[struct{}, struct{}] {
	self := &entity.Object[struct{}, struct{}]{}
	self.Kind = "Controller"
	self.Name = e.name
	return self
}

func resourceOf(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

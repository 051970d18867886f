package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
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
	sources    []source // the primary first
	reconciler Reconciler
	queue      *queue
	mappings   *mappings
	records    *entity.Records // nil without teardown
	anchors    *anchors
	brake      *brake
	parked     parkedKeys
	written    ownWrites
	cleanUps   cleanUps
	stats      counters
	flights    *flights

	lastDocumentLimit int
	filtered          bool                // only a part of the bucket is ours
	unusedLeft        map[string]struct{} // see leftOwners; only the sweep's
	owedBefore        map[string]struct{} // see remindOwed; only the sweep's

	instance       atomic.Pointer[string]
	unclaimed      chan struct{} // what claims the status bucket has gone
	recordsFailing atomic.Bool
	leaseFailing   atomic.Bool
	started        atomic.Bool
	terms          terms
	standby        standby
	acquired       atomic.Uint64 // the revision of the lease with which this term began
	runs           atomic.Uint64 // numbers the reconciles that log something

	loggerKey any // under which logr keeps the logger of a context

	healthMu   sync.Mutex // held during the user's callback, so that news come in order
	degradedMu sync.Mutex // guards degraded
	degraded   map[string]error
}

func newEngine(name, kind string, config entity.Config, records *entity.Records, r Reconciler, opts options) *engine {
	e := &engine{name: name, kind: kind, statusBucket: config.StatusBucket, opts: opts, reconciler: r, loggerKey: loggerKey(), unclaimed: make(chan struct{}, 1)}
	e.queue = newQueue(queueOptions{
		name:          name,
		debounceQuiet: opts.debounceQuiet, debounceMax: opts.debounceMax,
		backoffMin: opts.backoffMin, backoffMax: opts.backoffMax,
	})
	if !opts.withoutTeardown {
		e.records = records
		e.flights = newFlights()
		e.lastDocumentLimit = config.LastDocumentLimit
		e.filtered = config.Filter != ">"
		e.anchors = &anchors{engine: e, backoff: newBackoff(opts.backoffMin, opts.backoffMax)}
		e.brake = newBrake(e)
		e.standby.on = true // without a lease there is no other replica, and nothing that says what is owed
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
	e.queue.add(key, operations(OperationPut), prioLive)
}

// sourceHealth reports a source that degrades or heals. The others go on.
func (e *engine) sourceHealth(ctx context.Context, s source) { e.changeHealth(ctx, s.String(), s.err) }

func (e *engine) setHealth(ctx context.Context, name string, err error) {
	e.changeHealth(ctx, name, func() error { return err })
}

// changeHealth reports what now returns. It is asked under the lock: of two news at once the one reported last is the
// newer one, so that nothing stays degraded that has healed.
func (e *engine) changeHealth(ctx context.Context, name string, now func() error) {
	e.healthMu.Lock()
	defer e.healthMu.Unlock()
	err := now()
	e.degradedMu.Lock()
	before := e.degraded[name]
	if err == nil {
		delete(e.degraded, name)
	} else {
		if e.degraded == nil {
			e.degraded = map[string]error{}
		}
		e.degraded[name] = err
	}
	e.degradedMu.Unlock()
	switch {
	case err == nil && before == nil:
		return
	case err == nil:
		klog.FromContext(ctx).Info("Source works again", "source", name)
	case before == nil || before.Error() != err.Error():
		klog.FromContext(ctx).Error(err, "Source degraded, the rest goes on", "source", name)
	default:
		return // nothing new
	}
	if f := e.opts.onSourceError; f != nil {
		e.callback(ctx, "WithOnSourceError", func() { f(name, err) })
	}
}

// recordsSource names the records in Stats and in WithOnSourceError.
const recordsSource = "records"

// recordsDegraded reports that records cannot be written, recordsHealthy that they can again.
func (e *engine) recordsDegraded(ctx context.Context, err error) {
	e.changeHealth(ctx, recordsSource+" (bucket "+e.statusBucket+")", func() error {
		e.recordsFailing.Store(true)
		return err
	})
}

func (e *engine) recordsHealthy(ctx context.Context) {
	if e.recordsFailing.Load() {
		e.changeHealth(ctx, recordsSource+" (bucket "+e.statusBucket+")", func() error {
			e.recordsFailing.Store(false)
			return nil
		})
	}
}

// callback runs a callback of the user; its panic must not end the process.
func (e *engine) callback(ctx context.Context, name string, f func()) {
	if err := guard(func() error { f(); return nil }); err != nil {
		klog.FromContext(ctx).Error(err, "Callback panicked", "callback", name)
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

// parkedKeys are the keys whose last attempt ended with a terminal error.
type parkedKeys struct {
	size  atomic.Int64 // of byKey: nearly always none is parked, and then nobody locks
	mu    sync.Mutex
	byKey map[string]parkedAt
}

// parkedAt is the state of the primary that could not be reconciled; any other state deserves another attempt.
type parkedAt struct {
	presence presence
	object   metav1.Object // not the revision: in a stream that was recreated another document may have the same
}

func (p *parkedKeys) park(key string, v view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[string]parkedAt{}
	}
	p.byKey[key] = parkedAt{presence: v.presence, object: v.object}
	p.size.Store(int64(len(p.byKey)))
}

// holds tells whether the key stays parked; else it is parked no longer.
func (p *parkedKeys) holds(key string, v view, ops Operations) bool {
	if p.size.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.byKey[key]
	if !ok {
		return false
	}
	if at == (parkedAt{presence: v.presence, object: v.object}) && !ops.wakes() {
		return true
	}
	delete(p.byKey, key)
	p.size.Store(int64(len(p.byKey)))
	return false
}

func (p *parkedKeys) forget(key string) {
	if p.size.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byKey, key)
	p.size.Store(int64(len(p.byKey)))
}

func (p *parkedKeys) len() int { return int(p.size.Load()) }

// ownWrites remembers what a key's last reconcile wrote, so that its next one waits until the caches show it.
type ownWrites struct {
	size  atomic.Int64 // of byKey: a controller at rest writes nothing, and then nobody locks
	mu    sync.Mutex
	byKey map[string]*entity.WriteLog
}

// ownWritesKept bounds the memory spent on keys that are not reconciled again soon.
const ownWritesKept = 4096

func (w *ownWrites) put(key string, log *entity.WriteLog) {
	if log.Empty() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = map[string]*entity.WriteLog{}
	}
	if len(w.byKey) >= ownWritesKept {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // only look, do not wait
		for old, log := range w.byKey {
			if log.Wait(ended) == nil {
				delete(w.byKey, old)
			}
		}
	}
	w.byKey[key] = log
	w.size.Store(int64(len(w.byKey)))
}

func (w *ownWrites) take(key string) *entity.WriteLog {
	if w.size.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.byKey[key]
	if log != nil {
		delete(w.byKey, key)
		w.size.Store(int64(len(w.byKey)))
	}
	return log
}

// explicit tells whether somebody enqueued the key by hand, so that it runs even where nothing is owed.
func (o Operations) explicit() bool { return o&explicitBit != 0 || o.Has(OperationManual) }

// wakes tells whether the operations ask to try a parked key again although it has not changed.
func (o Operations) wakes() bool {
	return o.Has(OperationManual) || o&explicitBit != 0 && o&documentBits != 0
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

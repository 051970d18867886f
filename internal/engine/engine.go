package engine

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/causes"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// Engine is a Controller without its type parameter. Data flows one way through it: sources → queue → workers →
// reconciler → writes. Around the reconciler stand the anchor (before and after) and, for a primary that is gone, the
// teardown. Only the replica that holds the lease works.
type Engine struct {
	name         string
	Kind         string
	statusBucket string
	opts         Options

	client    NamedClient // of the primaries
	primary   primary
	sources   source.Roster  // the primary first
	APIs      *apisource.Set // those of them that are behind APIs
	reconcile Reconcile
	unpruned  Reconcile // as the user gave it
	pruner    *lifecycle.Pruner
	queue     *queue.Queue
	mappings  *source.Mappings
	records   records // nil without teardown
	anchors   *record.Anchors
	brake     *brake.Brake // nil without teardown, as is the next
	teardown  *lifecycle.Teardown
	deletes   *deletes.Guard
	keys      keytable.Table
	index     explain.Index // of the keys, for listings
	hashes    owner.Hashes  // of the primaries
	life      lifecycle.Lifecycle
	contexts  reconcilectx.Config // of reconciles
	backoff   retry.Backoff       // of attempts, of writes of records, of refused statuses: each counts for itself
	stats     Counts
	suspects  loops.Suspects
	causes    *causes.Table // nil unless an observer wants to know them
	running   running.Table
	plans     plans
	callbacks running.Callbacks
	recorder  Recorder       // of the engine's own events; nil if there is none
	reports   notify.Reports // about keys that others wrote
	async     *asyncWrites
	sharing   *sharing     // nil unless replicas share the keys
	parts     *parts.Parts // nil: caches have all

	aftereffects aftereffects

	filtered bool // only a part of the bucket is ours
	sweeper  *sweeper

	reserved   *record.Bucket // nil without teardown, as are claim and garbled
	claim      *record.Claim
	garbled    *record.Garbled
	started    atomic.Bool
	synced     atomic.Bool // all sources have been
	ended      atomic.Bool // Run has returned
	leadership leadership

	changes       changes // of the sources
	pruned        atomic.Pointer[sets.Set[source.Place]]
	missing       sync.WaitGroup // follows the optional sources that have not synced
	without       sync.Map       // those sources, until the brake knows that they have come; true: health says so
	health        *health.Board
	recordsHealth *health.Reporter // whether records can be written
	leaseHealth   *health.Reporter // whether the lease can be read and written
	rightsMu      sync.Mutex
	rights        notify.Facts  // that are missing, and told in the log
	leaseRemoved  chan struct{} // gets an element when the key of the lease was seen to vanish
	former        formerKinds
	stuck         chan error // gets the error with which Run ends because reconciles do not return
}

// New makes the engine of a controller. Its sources are not started before run.
func New[T entity.IEntity](
	name string, client entity.IEntityClient[T], reconcile Reconcile, opts Options,
) (*Engine, error) {
	if err := opts.Clients.New(name, client, reconcile != nil, func() bool {
		return opts.WithoutTeardown || client.EnginePort().Records() != nil
	}, func() bool { return client.Config().OnlyMetadata }); err != nil {
		return nil, err
	}
	e := &Engine{
		name: name, Kind: client.Kind(), statusBucket: client.Config().StatusBucket, opts: opts, reconcile: reconcile,
		client: client, parts: newParts(opts), recorder: opts.Recorder, former: formerKinds{passing: turn.New()},
		backoff: retry.NewBackoff(opts.BackoffMin, opts.BackoffMax),
	}
	e.queue, e.changes = e.newQueue(), newChanges()
	if opts.Observers.TakeCauses() {
		e.causes = causes.NewTable()
	}
	e.reportOver(client.EnginePort().JetStream())
	e.mappings = source.NewMappings(e, opts.BackoffMin, opts.BackoffMax, func() { e.stats.MapperErrors.Add(1) },
		func() { e.EnqueueAll(operation.Of(operation.Resync), nil) })
	observer := &primaryHandler{}
	e.primary = source.NewPrimary(client, observer, e.Filtered(opts.Predicates), !opts.WithoutTeardown, e.SourceHealth,
		e.Traced(), e.Division())
	e.deletes = e.newGuard()
	if opts.WithoutTeardown {
		e.life = lifecycle.Unrecorded{Keys: &e.keys}
		e.APIs = e.newAPIs()
	} else {
		e.keepRecords(client.Config(), client.EnginePort().Records())
	}
	e.contexts = reconcilectx.Config{Host: reconcileHost{e}, Statuses: e.primary, APIs: e.APIs, Proofs: opts.Proofs,
		Deleted: e.deletedBehindAPI}
	if err := e.addSources(); err != nil {
		return nil, err
	}
	*observer = primaryHandler{
		primaryHandlerHost: e, Keys: &e.keys, Hashes: &e.hashes, Queue: e.queue, Counts: &e.stats, Reports: &e.reports,
		NoteKey: e.noteKey, Notes: e.index.Begun, Shared: opts.WithoutLease,
		Brake: e.brake, Anchors: e.anchors, Claim: e.claim, Garbled: e.garbled, LeaseRemoved: e.leaseRemoved,
		LeaseRenewed: e.leadership.noteRenewed, LeaseSeen: e.leaseSeen, SlotsSeen: e.slotsSeen,
	}
	e.prune()
	e.sweeper = &sweeper{
		Interval: opts.ResyncInterval, Soon: make(chan struct{}, 1), Later: make(chan struct{}, 1),
		Orders: make(chan func(context.Context)),
		DryRun: opts.SweepDryRun, Shared: opts.Shards > 0, Garbage: opts.Garbage,
		Primaries: e.primary, Queue: e.queue, Counts: &e.stats,
		Before: e.renameFormer, Streams: e.ownedStreams, Records: e.records, Brake: e.brake, Teardown: e.teardown,
	}
	if opts.Attach != nil {
		opts.Attach(e)
	}
	for _, beside := range opts.Beside {
		if err := beside.Join(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// reportOver makes the board, for what is behind the connection of js, which may be nil.
func (e *Engine) reportOver(js jetstream.JetStream) {
	e.health = e.newBoard()
	if js != nil && js.Conn() != nil {
		e.health.Over(js.Conn(), e.isOver(js.Conn()))
	}
	e.recordsHealth = e.health.Reporter(recordsOf(e.statusBucket))
	e.leaseHealth = e.health.Reporter(leaseOf(e.statusBucket))
}

// keepRecords is for an engine with a status bucket.
func (e *Engine) keepRecords(config entity.Config, records records) {
	e.records = records
	e.leaseRemoved, e.stuck = make(chan struct{}, 1), make(chan error, 1)
	e.reserved = record.NewBucket(records, e.statusBucket, e.health)
	e.claim = record.NewClaim(e.reserved, e.name, e.opts.Instance)
	e.garbled = &record.Garbled{Bucket: e.statusBucket, Board: e.health}
	e.async = newAsyncWrites()
	e.filtered = config.Filter != ">"
	e.anchors = &record.Anchors{
		Controller: e.name, Kind: e.Kind, Limit: config.LastDocumentLimit, Records: records, Primary: e.primary,
		Written: e.recordWritten,
	}
	e.APIs = e.newAPIs()
	e.teardown = e.newTeardown()
	if e.opts.Shards > 0 {
		e.sharing = e.newSharing()
	}
	e.brake = e.newBrake()
	e.teardown.Brake = e.brake
	e.anchors.Overruled = e.brake.Overrules
	records.BelongTo(cmp.Or(records.Controller(), e.name))
	led := &lifecycle.RecordedLife{
		Keys: &e.keys, Anchors: e.anchors, Records: records, Brake: e.brake, Teardown: e.teardown,
		Primary: e.primary, RecordsHealth: e.recordsHealth, Health: e.health, Reports: &e.reports,
		Warn: reconcileHost{e}.Warn, Restored: e.aftereffects.restored.Add, Unspent: e.queue.Refund,
	}
	if e.life = led; e.opts.WithoutLease {
		e.life = lifecycle.NewSharedLife(led)
	}
}

// Change changes options that are read while the engine runs, before run.
func (e *Engine) Change(change func(*Options)) { change(&e.opts) }

// Beside is what runs while the engine leads, beside its work.
func (e *Engine) Beside() []Beside { return e.opts.Beside }

// Name is the controller's.
func (e *Engine) Name() string { return e.name }

func (e *Engine) newTeardown() *lifecycle.Teardown {
	return lifecycle.NewTeardown(lifecycle.TeardownConfig{
		Kind: e.Kind, Primaries: e.primary, Records: e.records, Anchors: e.anchors, Reserved: e.reserved, APIs: e.APIs,
		Guard: e.deletes, Owner: teardownOwner{e},
		Sources: e.owned, Filtered: e.filtered, NoCascade: e.opts.WithoutCascade, Former: e.formerOf,
		Counters: lifecycle.TeardownCounters{
			Cascaded:     func() { e.stats.Cascaded.Add(1) },
			Foreign:      func() { e.stats.Foreign.Add(1) },
			LeftUnproven: func(n int) { e.stats.LeftUnproven.Add(uint64(n)) },
		},
	})
}

// teardownOwner implements lifecycle.TeardownOwner.
type teardownOwner struct{ *Engine }

func (o teardownOwner) LastSeen(key string) metav1.Object { return o.lastSeen(key) }

// lastSeen is the primary that was deleted, until its teardown is over; nil if none is known.
func (e *Engine) lastSeen(key string) metav1.Object {
	if deleted := e.keys.Of(key).Deleted; deleted != nil {
		return deleted.Object
	}
	return nil
}

// callback runs a callback of the user; its panic must not end the process.
func (e *Engine) callback(ctx context.Context, name string, f func()) {
	if err := guard.Call(func() error { e.callbacks.Call(name, f); return nil }); err != nil {
		printable.Logger(klog.FromContext(ctx)).Error(err, "Callback panicked", "callback", name)
	}
}

func resourceOf(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

// EventsOf is the sink of a source whose events make the primaries due that keys returns.
func (e *Engine) EventsOf(
	s source.Source, predicates source.Predicates, keys source.Mapper, op operation.Operation,
) *source.Events {
	return &source.Events{Source: s, Predicates: predicates, Keys: keys, Operation: op, Mappings: e.mappings}
}

// SourceHealth reports a source that degrades or works again, one whose buckets have unsafe settings by now, and one
// whose calls go wrong. The others go on.
func (e *Engine) SourceHealth(ctx context.Context, s source.Source) {
	e.health.Change(ctx, s.String(), func() error {
		if told, missing := e.without.Load(s); missing && told.(bool) && !source.HasSynced(s) {
			return withoutSource(s)
		}
		return s.Err()
	})
	if cached, ok := s.(source.Cached); ok {
		e.health.Change(ctx, settingsOf(s), cached.Settings)
	}
	if called, ok := s.(source.Called); ok {
		e.health.Change(ctx, callsOf(s), called.Calls)
	}
	e.recovered(s)
}

// recordWritten is told of each record that was written.
func (e *Engine) recordWritten(ctx context.Context, key string) {
	e.keys.Amend(key, func(s *keytable.State) { s.RecordFailures = 0 })
	e.recordsHealth.Healthy(ctx)
}

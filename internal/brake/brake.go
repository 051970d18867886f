// Package brake decides about deletes that are not evidenced: of what a vanished primary owns (cascade), of what names
// a primary without a record (sweep), and of what reconciles no longer want (prune). It is the guard's last check (see
// package deletes): the delete is evidenced, or the brake lets it go.
//
// The rules:
//
//   - The brake engages if more than half of what is known, and at least Least, would go within the window: primaries,
//     or objects that they own. Sweeps count for each source by itself, and what is made anew each time.
//   - It engages if anything would go while the bucket's stream is not the one that was known: recreated, or restored
//     to an earlier state; and if anything expired by the bucket's age limit without Config.DocumentsExpire.
//   - It engages if anything would go while there is a secondary whose owner is missing and which carries a revision of
//     it that the stream has not reached, or has given to another document, or that is of another stream.
//   - What names an owner that, as far as anybody can tell, never was engages nothing, is not held and is not let go by
//     a release, whatever revision it carries. Such revisions are reported.
//   - It engages if more than half of the primaries, and at least Least, no longer want what they own; or on a doubt.
//   - It collects suspects before it decides, so that the first of a mass delete do not slip through. Where the
//     leader is asked about a key first, it waits for the answer, for up to half a minute.
//   - While it is engaged it holds everything that is inferred, across restarts, until a release. It disengages by
//     itself if all that it holds exists again.
//   - A release covers what is held then, and nothing that vanishes later. Each engagement has an id of its own, and
//     a request for its release names it, with how many deletes are held. See request.
//   - State that cannot be read counts as engaged, and a stream that cannot be read as another one.
//
// The words: a delete is a suspect until it is decided about. Then it is allowed, or held until a release. An owner is
// excused if a release let go what names it: that is no evidence any more. An engagement lasts from when the brake
// engages to a release, or until it disengages. An operator's request, in the release key, is granted or ignored;
// Release grants what is held where it is called, if the brake runs there.
package brake

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/turn"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Primaries are the documents of the primaries, as the cache of this replica has them.
type Primaries interface {
	// Exists reports whether a key has a document, also one that does not decode.
	Exists(key string) bool
	// Evidenced reports whether this process saw a delete of the key.
	Evidenced(key string) bool
	// AgedOut reports whether the key outgrew the bucket's age limit, which may be a mistake: no writer deleted it.
	AgedOut(key string) bool
	// Revisions are those of all documents.
	Revisions() iter.Seq[uint64]
	// Stream is the stream that the cache reflects.
	Stream() Stream
	// Await waits until the cache has reached a sequence of the stream.
	Await(ctx context.Context, sequence uint64) error
}

// Anchors are the records under which a teardown is owed once the document is gone.
type Anchors interface {
	All() iter.Seq2[string, Anchor]
	Has(key string) bool
}

// Anchor is what a record tells of the primaries' stream.
type Anchor struct {
	Stream   string // the identity of the stream, see Stream.Created
	Document uint64 // the revision of the document that the record anchors
	Observed uint64 // the revision that was reconciled last
}

// Config is what a brake works with. Everything is needed, but for Shared and Changed.
type Config struct {
	Primaries Primaries
	Anchors   Anchors
	// Bucket keeps the brake's state and the known stream, and has the key that releases the brake.
	Bucket *record.Bucket
	// Secondaries returns the owner and the stamp of each secondary of this installation whose owner has no document,
	// but is certain to have been: it has a record, or the secondary a proof. Those that were left on purpose or are on
	// their way out are not among them, nor are those that have no stamp.
	Secondaries func(ctx context.Context) iter.Seq2[string, owner.Stamp]
	// OwnedBy counts the objects of this installation that the runtime would delete with primaries, by primary, if any.
	// Owned counts all such objects that there are. Both ask caches only.
	OwnedBy func(primaries sets.Set[string]) map[string]int
	Owned   func() int
	// Marked asks the leader whether a key has the marker of a delete.
	Marked func(ctx context.Context, key string) (bool, error)
	// Window is how long a delete that was let go counts.
	Window time.Duration
	// Backlog reports whether keys that wait in the background are still to be reconciled.
	Backlog func() bool
	// Enqueue makes a key due. It must not call the brake.
	Enqueue func(key string, ops operation.Operations, prio queue.Priority)
	// Tell is called each time the brake engages, is released, or disengages by itself. message says why, for people.
	Tell func(ctx context.Context, state State, message string)
	// Restore is how to put back what vanished, as commands to copy; nil: the program has none. Orphans are how to list
	// and delete what names owners that never were; zero: it has none.
	Restore func(engagement string) string
	Orphans OrphanCommands
	// Ignored is called when a request for a release has no effect, with what to do instead.
	Ignored func(ctx context.Context, message string)
	// Shared says that several replicas share the keys, and that this brake follows the one that runs while it does not
	// run itself. Changed is called when what it asks or tells may have changed; it must not call the brake.
	Shared  bool
	Changed func()
	// Lease is how long that of the replica lasts whose brake runs.
	Lease time.Duration
	// Board shows an engaged brake as degraded, as long as Run runs.
	Board *health.Board
}

// Brake decides about inferred deletes. All methods may be called concurrently, but Start and Run, which belong to a
// term: Start first, then Run until the term is over.
type Brake struct {
	Config
	streamCell  record.Cell[keptStream]
	stateCell   record.Cell[kept]
	releaseCell record.Cell[record.Release]

	wake    chan struct{} // makes Run decide
	keeping turn.Turn     // held while the state is written, so that the newest is written last
	busy    atomic.Bool   // false: the sets of keys are empty, and no lock is needed to know

	mu         sync.Mutex // unlock with b.unlock
	state      State
	suspects   sets.Set[string] // inferred, not decided yet
	held       sets.Set[string] // deletes that wait for a release
	heldOwners sets.Set[string] // missing owners whose secondaries wait for a release
	unknown    sets.Set[string] // missing owners that may never have been; no release is for them
	allowed    sets.Set[string] // keys and owners that may go
	excused    sets.Set[string] // owners that a release let go, until they exist again; no evidence any more
	collection collection
	came       int                 // how many sources have come late, see CameLate
	gone       window              // deletes that were let go without a release
	objects    map[string]int      // what those of them owned without a known delete
	cleaned    map[string]cleanUp  // owners that sweeps let go without a release, by key
	sweptIn    map[string]*sweptIn // what went because of sweeps, by source
	prunes     prunes
	known      knownStream

	follow   following
	requests requests
	disarmed bool // see Disarm
	running  bool // between Start and the end of Run
	shown    int  // how many held deletes the board and the bucket tell of
	shownAt  time.Time

	// swept is set by the first sweep of the term, which says what the sweep has to hold back. An engaged brake stays
	// engaged until then, and a release would not cover it.
	swept bool

	calmIn *Stream // another stream, in which nothing was missing at the last checkpoint; only Run's
}

// New returns a brake that admits nothing before Start and Run.
func New(cfg Config) *Brake {
	return &Brake{
		Config:      cfg,
		streamCell:  record.JSON[keptStream](cfg.Bucket, record.KeyStream),
		stateCell:   record.JSON[kept](cfg.Bucket, record.KeyBrake),
		releaseCell: record.JSON[record.Release](cfg.Bucket, record.KeyRelease),
		wake:        make(chan struct{}, 1),
		keeping:     turn.New(),
		suspects:    sets.New[string](),
		held:        sets.New[string](),
		heldOwners:  sets.New[string](),
		unknown:     sets.New[string](),
		allowed:     sets.New[string](),
		excused:     sets.New[string](),
		gone:        window{span: cfg.Window},
		prunes:      newPrunes(window{span: cfg.Window}),
	}
}

// Disarm lets everything go from now on, where one key is reconciled by hand and there is nothing to count.
func (b *Brake) Disarm() { b.disarmed = true }

// Start begins a term: it loads what an earlier one left, and makes every delete that is owed a suspect. All caches are
// synced. It fails only if ctx ends.
func (b *Brake) Start(ctx context.Context) error {
	left, err := b.loadState(ctx)
	if err != nil {
		return err
	}
	known, err := b.loadStream(ctx)
	if err != nil {
		return err
	}
	requested, err := b.releaseCell.Exists(ctx)
	if err != nil {
		return err
	}
	released := sets.New(left.Keys...)
	compared := b.compareAll(ctx, known, b.stampsAtStart(ctx, released))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.unlock()
	b.calmIn = nil
	b.state, b.swept, b.running, b.shown = left.State, false, true, left.State.Count()
	b.requests.unread = requested
	b.requests.beginEngagement()
	b.known = compared
	b.suspects, b.held = sets.New[string](), sets.New[string]()
	b.heldOwners, b.unknown = sets.New[string](), sets.New[string]()
	b.allowed, b.prunes = released, b.prunesOfTerm()
	for key := range b.Anchors.All() {
		switch {
		case b.Primaries.Exists(key):
			b.allowed.Delete(key)
		case b.allowed.Has(key), b.Primaries.Evidenced(key):
			b.Enqueue(key, operation.Owed, queue.Background)
		default:
			b.suspect(key)
		}
	}
	b.poke()
	return nil
}

// checkpoint is how often the identity and the highest sequence of the stream are kept.
const checkpoint = time.Minute

// Run decides until ctx ends.
func (b *Brake) Run(ctx context.Context) {
	b.report(ctx)
	defer b.leave(context.WithoutCancel(ctx))
	timer := time.NewTimer(0)
	defer timer.Stop()
	checkpoints := time.NewTicker(checkpoint)
	defer checkpoints.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		case <-checkpoints.C:
			b.keepStream(ctx)
			b.keepAgain(ctx)
		}
		if wait := b.doAllDue(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// doAllDue does all that is due. It returns after what time something else is; 0 if Run is woken before.
func (b *Brake) doAllDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		step, wait := b.nextStep()
		if step == nil {
			return wait
		}
		step(ctx)
	}
	return 0
}

// nextStep returns what is to be done next; nil if nothing is, or not before wait is over.
func (b *Brake) nextStep() (step func(context.Context), wait time.Duration) {
	b.mu.Lock()
	defer b.unlock()
	held := len(b.suspects) + len(b.held) + len(b.heldOwners) + len(b.unknown)
	switch nothingHeld := held == 0 && !b.prunes.keepEngaged(); {
	case b.isGranted() && b.swept:
		return b.release, 0
	case b.state.Engaged && b.swept && nothingHeld:
		return b.disengage, 0
	case b.state.Released && len(b.allowed) == 0:
		return b.endRelease, 0
	}
	for _, next := range []struct {
		step func(context.Context)
		when func() (now bool, wait time.Duration)
	}{
		{b.judgeSuspects, b.suspectsAreDue},
		{b.judgePrunes, b.prunesAreDue},
		{b.holdBack, b.anyIsBack},
		{b.judgeRequest, b.judgeable},
		{b.show, b.showable},
	} {
		switch now, later := next.when(); {
		case now:
			return next.step, 0
		case later > 0 && (wait == 0 || later < wait):
			wait = later
		}
	}
	return nil, wait
}

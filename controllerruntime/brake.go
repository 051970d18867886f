package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

const (
	// brakeLeast is the number of deletes from which on a mass delete is suspected.
	brakeLeast = 10
	// The brake collects suspects before it decides, so that the first of a mass delete do not slip through before the
	// last are known: until no more came for brakeQuiet, but at most brakePatience.
	brakeQuiet    = 300 * time.Millisecond
	brakePatience = 3 * time.Second
	// streamCheckpoint is how often the identity and highest sequence of the stream are kept.
	streamCheckpoint = time.Minute
)

// BrakeState tells whether the brake holds deletes back, and why. It is kept as JSON under "_nagi.brake" in the status
// bucket, so that it survives restarts.
type BrakeState struct {
	Engaged bool      `json:"engaged"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries wait for a release, Swept how many owners of orphaned secondaries.
	Held  int `json:"held,omitempty"`
	Swept int `json:"swept,omitempty"`
	// Released stays until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// brake stands before every delete that is inferred and not evidenced: vanished keys, deletes owed at start, the sweep.
// Workers ask admits; one goroutine (run) decides.
type brake struct {
	engine *engine
	wake   chan struct{}

	streamKey  record.Cell[streamIdentity]
	stateKey   record.Cell[keptBrake]
	releaseKey record.Cell[releaseRequest]

	keeping  sync.Mutex  // held while the state is written, so that what is written last is the newest
	busy     atomic.Bool // false: no key is in any of the sets, and nobody need lock to know
	mu       sync.Mutex
	state    BrakeState
	suspects map[string]struct{} // inferred, not decided yet
	held     map[string]struct{} // wait for a release
	swept    map[string]struct{} // owners whose orphaned secondaries wait for a release
	allowed  map[string]struct{} // may go
	recent   []time.Time         // when inferred deletes were allowed
	cleaned  map[string]cleaned  // owners that a sweep let be cleaned up after, within the window
	known    streamIdentity      // the stream that the anchors belong to
	release  bool
	calmIn   *streamIdentity // another stream, in which nothing was missing at the last checkpoint; only run's
	// sweptOnce is set when swept says what the sweep has to hold back; before that an engaged brake stays engaged.
	sweptOnce bool
	first     time.Time // when the first of the suspects came, and the last
	last      time.Time
}

func newBrake(e *engine) *brake {
	return &brake{
		engine: e, wake: make(chan struct{}, 1),
		streamKey:  record.JSON[streamIdentity](e.reserved, record.KeyStream),
		stateKey:   record.JSON[keptBrake](e.reserved, record.KeyBrake),
		releaseKey: record.JSON[releaseRequest](e.reserved, record.KeyRelease),
		suspects:   map[string]struct{}{}, held: map[string]struct{}{}, swept: map[string]struct{}{}, allowed: map[string]struct{}{},
	}
}

// admits tells whether an inferred delete of the key may go. If that is not decided yet the key becomes a suspect, and
// is enqueued again if it may.
func (b *brake) admits(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.allowed[key]; ok {
		return true
	}
	if _, ok := b.held[key]; !ok {
		b.suspectLocked(key)
		b.poke()
	}
	return false
}

// holds tells whether a delete of the key waits for a release.
func (b *brake) holds(key string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, held := b.held[key]
	return held
}

func (b *brake) suspectLocked(key string) {
	b.last = time.Now()
	if len(b.suspects) == 0 {
		b.first = b.last
	}
	b.suspects[key] = struct{}{}
	b.busy.Store(true)
}

// owesNothing is told that a key without a document has no anchor. What the sweep holds for it, or may clean up after it,
// stays: that a secondary whose owner is missing has changed does not bring the owner back.
func (b *brake) owesNothing(key string) {
	if !b.busy.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspects, key)
	delete(b.held, key)
	b.poke()
}

// settled is told that the key has a document, or was torn down: it is no suspect.
func (b *brake) settled(key string) {
	if !b.busy.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspects, key)
	delete(b.held, key)
	delete(b.swept, key)
	delete(b.allowed, key)
	b.busy.Store(len(b.suspects)+len(b.held)+len(b.swept)+len(b.allowed) > 0)
	b.poke()
}

func (b *brake) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *brake) snapshot() BrakeState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked()
}

func (b *brake) stateLocked() BrakeState {
	state := b.state
	state.Held, state.Swept = len(b.held), len(b.swept)
	return state
}

// start loads what an earlier run left, and makes every delete that is owed a suspect. All caches are synced.
func (b *brake) start(ctx context.Context) error {
	e := b.engine
	kept, err := b.kept(ctx)
	if err != nil {
		return err
	}
	known, err := b.knownStream(ctx)
	if err != nil {
		return err
	}
	requested, err := b.releaseKey.Exists(ctx)
	if err != nil {
		return err
	}
	records := e.anchoredRecords()
	known = highestKnown(known, records)
	now := b.streamNow(ctx, known)
	written := b.writtenOver(records)
	b.calmIn = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.release, b.sweptOnce = kept.BrakeState, requested, false
	b.known = sameStream(known, now, written)
	clear(b.suspects)
	clear(b.held)
	clear(b.swept)
	clear(b.allowed)
	for _, key := range kept.Keys {
		b.allowed[key] = struct{}{}
		b.busy.Store(true)
	}
	for key, anchor := range records {
		_, released := b.allowed[key]
		deleted := e.keys.of(key).deleted
		switch {
		case e.primary.Exists(key):
			delete(b.allowed, key)
			if v := e.primary.View(key); v.Object != nil && v.Object.GetAnnotations()[DeletionPolicyAnnotation] != anchor.DeletionPolicy {
				e.queue.Add(key, operation.Of(OperationResync), queue.Background) // predicates may have filtered its event
			}
		case released, deleted != nil && deleted.evidenced:
			e.queue.Add(key, operation.Of(OperationDelete), queue.Background)
		default:
			b.suspectLocked(key)
		}
	}
	b.poke()
	return nil
}

// run decides about suspects until the term ends.
func (b *brake) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	checkpoint := time.NewTicker(streamCheckpoint)
	defer checkpoint.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-timer.C:
		case <-checkpoint.C:
			b.keepStream(ctx)
		}
		if wait := b.decide(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// decide does what is due now, and returns when it wants to look again.
func (b *brake) decide(ctx context.Context) time.Duration {
	b.mu.Lock()
	released, engaged, swept := b.release, b.state.Engaged, b.sweptOnce
	nothing := len(b.suspects)+len(b.held)+len(b.swept) == 0 && swept
	finished := b.state.Released && len(b.allowed) == 0
	wait := b.collectingLocked()
	b.mu.Unlock()
	switch {
	case released && engaged && swept: // before, it would not cover what the sweep holds
		b.letGo(ctx)
	case released && !engaged:
		b.dismiss(ctx)
	case engaged && nothing:
		b.disengage(ctx)
	case finished:
		b.clear(ctx)
	case wait > 0:
		return wait
	default:
		b.judge(ctx)
		return 0
	}
	return atOnce // what woke us may not have been looked at yet
}

// atOnce makes run decide again without a wait.
const atOnce = time.Nanosecond

// collectingLocked is how long to wait for more suspects.
func (b *brake) collectingLocked() time.Duration {
	if len(b.suspects) == 0 {
		return 0
	}
	now := time.Now()
	return min(b.last.Add(brakeQuiet).Sub(now), b.first.Add(brakePatience).Sub(now))
}

// judge engages the brake, or lets the suspects go.
func (b *brake) judge(ctx context.Context) {
	going, several := b.goingNow()
	if len(going) == 0 {
		return
	}
	known := 0
	if several {
		known = b.engine.countAnchored() // of many records it takes a while, in which nobody should wait for the lock
	}
	reason := ""
	b.mu.Lock()
	switch {
	case b.state.Engaged:
	case b.streamChangedLocked():
		reason = fmt.Sprintf("the stream of the bucket is not the one that was known (recreated, or restored to an earlier state), and %d primaries are not in it", len(going))
	case several:
		reason = b.tooManyLocked(len(going), known-b.goingAlreadyLocked(), "primaries vanished without a delete being seen")
	}
	engaged := b.state.Engaged || reason != ""
	var free []string
	for _, key := range going {
		if _, still := b.suspects[key]; !still {
			continue // it came back meanwhile
		}
		delete(b.suspects, key)
		if engaged {
			b.held[key] = struct{}{}
			continue
		}
		b.allowed[key] = struct{}{}
		b.recent = append(b.recent, time.Now())
		free = append(free, key)
	}
	b.mu.Unlock()
	if reason != "" {
		b.engage(ctx, reason)
	}
	for _, key := range free {
		b.engine.queue.Add(key, operation.Of(OperationDelete), queue.Secondary)
	}
}

// goingNow lists the suspects, and tells whether with what went within the window they are enough for a mass delete. Those
// that exist again are suspects no longer.
func (b *brake) goingNow() (going []string, several bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.suspects {
		if b.engine.primary.Exists(key) {
			delete(b.suspects, key)
			continue
		}
		going = append(going, key)
	}
	return going, len(going)+b.goneLocked() >= brakeLeast
}

// goneLocked counts what was let go within the window.
func (b *brake) goneLocked() int {
	oldest := time.Now().Add(-b.engine.opts.brakeWindow)
	for len(b.recent) > 0 && b.recent[0].Before(oldest) {
		b.recent = b.recent[1:]
	}
	return len(b.recent)
}

// goingAlreadyLocked counts the anchored primaries that may go: they count among the gone and not among the known.
func (b *brake) goingAlreadyLocked() int {
	going := 0
	for key := range b.allowed {
		if record.IsAnchor(b.engine.anchors.Cached(key)) {
			going++
		}
	}
	return going
}

// anchoredRecords are the records in the cache under which a teardown is owed once the document is gone.
func (e *engine) anchoredRecords() map[string]*entity.Record {
	records := map[string]*entity.Record{}
	for key, held := range e.records.All() {
		if record.IsAnchor(held) {
			records[key] = held
		}
	}
	return records
}

func (e *engine) countAnchored() int {
	count := 0
	for _, held := range e.records.All() {
		if record.IsAnchor(held) {
			count++
		}
	}
	return count
}

// tooManyLocked is the rule: within the window more than half of what is known, and at least ten.
func (b *brake) tooManyLocked(going, known int, what string) string {
	gone := b.goneLocked()
	if going+gone < brakeLeast || 2*(going+gone) <= known+gone {
		return ""
	}
	return fmt.Sprintf("%d of %d %s within %v", going+gone, known+gone, what, b.engine.opts.brakeWindow)
}

// engage holds everything inferred until a release, across restarts, and says so loudly.
func (b *brake) engage(ctx context.Context, reason string) {
	b.mu.Lock()
	b.state = BrakeState{Engaged: true, Since: time.Now(), Reason: reason}
	state := b.stateLocked()
	b.mu.Unlock()
	e := b.engine
	e.stats.brakeEngaged.Add(1)
	klog.FromContext(ctx).Error(nil, "BRAKE ENGAGED: nothing inferred is deleted until it is released",
		"reason", reason, "held", state.Held, "swept", state.Swept, "release", "ReleaseBrake, or put anything to "+record.KeyRelease+" in the status bucket",
		"bucket", e.statusBucket)
	b.tell(ctx, state, eventWarning, "BrakeEngaged", reason)
	if err := b.keepState(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep the state of the brake; it is decided anew after a restart")
	}
}

// tell tells the callback and the event recorder.
func (b *brake) tell(ctx context.Context, state BrakeState, eventType, reason, message string) {
	e := b.engine
	if f := e.opts.onBrake; f != nil {
		e.callback(ctx, "WithOnBrake", func() { f(state) })
	}
	e.event(e.self(), eventType, reason, message)
}

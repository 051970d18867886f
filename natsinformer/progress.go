package natsinformer

import (
	"context"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
)

// progress knows up to which stream sequence the store is complete.
//
// The store itself says how far it is: client-go keeps the resourceVersion of the last event applied to it, and our
// bookmarks move it over messages that were no event. That is the cursor, with two exceptions:
//
//   - A sequence may be missing while more is to come: its key was written again, and until the newer message arrives
//     the store holds neither. Such a span is held: the cursor waits before it until the span is closed.
//   - The difference of a new list is not applied in the order of sequences. Meanwhile the cursor is frozen.
//
// Without client-go's AtomicFIFO feature the store keeps no resourceVersion. Then our own event handler counts the
// events that were applied, and marks say which sequence was complete after how many.
type progress struct {
	store   cache.Indexer
	counted *counter // nil with AtomicFIFO

	emitted atomic.Uint64 // the sequence up to which everything was handed to client-go
	waiters atomic.Int32

	mu     sync.Mutex
	wakeup chan struct{}
	spans  []span // held, oldest first; at most the last one is open
	frozen *uint64
	held   atomic.Bool // whether there are spans, or it is frozen
}

// span holds the cursor at from until the store has reached to, which is zero while it is not known.
type span struct{ from, to uint64 }

func newProgress(informer cache.SharedIndexInformer) (*progress, error) {
	p := &progress{store: informer.GetIndexer(), wakeup: make(chan struct{})}
	if features.FeatureGates().Enabled(features.AtomicFIFO) {
		return p, nil
	}
	p.counted = &counter{}
	_, err := informer.AddEventHandler(p.counted)
	return p, err
}

func (p *progress) cursor() uint64 {
	if p.counted != nil {
		return p.counted.cursor()
	}
	// Read the store before held: a span is opened before any later event is handed over, so it cannot be missed.
	at := p.stored()
	if !p.held.Load() {
		return at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		return *p.frozen
	}
	at = p.stored()
	p.drop(at)
	if len(p.spans) > 0 {
		return min(at, p.spans[0].from)
	}
	return at
}

// drop forgets the spans whose ends the store has reached.
func (p *progress) drop(at uint64) {
	for len(p.spans) > 0 && p.spans[0].to != 0 && p.spans[0].to <= at {
		p.spans = p.spans[1:]
	}
	if len(p.spans) == 0 {
		p.held.Store(p.frozen != nil)
	}
}

func (p *progress) stored() uint64 {
	n, _ := strconv.ParseUint(p.store.LastStoreSyncResourceVersion(), 10, 64) // empty before the first list
	return n
}

// hold opens a span: some message between the sequence and the next one handed to client-go may be still to come.
func (p *progress) hold(from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.spans); n > 0 && p.spans[n-1].to == 0 {
		return
	}
	if p.counted == nil {
		p.drop(p.stored()) // cursor does so too, but may never be called
	}
	p.spans = append(p.spans, span{from: from})
	p.held.Store(true)
}

// release closes the open span: everything up to the sequence has arrived.
func (p *progress) release(to uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spans)
	if n == 0 || p.spans[n-1].to != 0 {
		return
	}
	p.spans[n-1].to = to
	if p.counted != nil { // it gets marks only while nothing is held
		p.spans = nil
		p.held.Store(p.frozen != nil)
	}
}

// holds reports whether the cursor waits for something, so that nothing else may stop and release it.
func (p *progress) holds() bool {
	p.cursor() // lets go of what has come
	return p.held.Load()
}

// open reports whether a span is held whose end is not known.
func (p *progress) open() bool {
	if !p.held.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spans)
	return n > 0 && p.spans[n-1].to == 0
}

// shows reports whether client-go has applied an event and all before it. The store shows no later one.
func (p *progress) shows(e watch.Event) bool {
	if p.counted != nil {
		return p.counted.caughtUp()
	}
	stored, exists, _ := p.store.Get(e.Object) // fails only for what could not have been stored
	if e.Type == watch.Deleted {
		return !exists
	}
	return exists && same(stored, e.Object)
}

// same reports whether a stored object is the one that was emitted. A document that was replaced in another stream by
// one of the same revision is another object.
func same(stored any, emitted kruntime.Object) bool {
	a, b := reflect.ValueOf(stored), reflect.ValueOf(emitted)
	if a.Kind() == reflect.Pointer && b.Kind() == reflect.Pointer {
		return a.Pointer() == b.Pointer()
	}
	object, ok := stored.(kruntime.Object)
	return ok && versionOf(object) == versionOf(emitted)
}

// applied reports whether client-go has applied a bookmark behind events that it has applied.
func (p *progress) applied(bookmark string) bool {
	if p.counted != nil {
		return p.counted.caughtUp()
	}
	return p.store.LastStoreSyncResourceVersion() == bookmark
}

// sending must be called before that many events are handed to client-go.
func (p *progress) sending(events int) {
	if p.counted != nil {
		p.counted.send(events)
	}
}

func (p *progress) freeze(at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = &at
	p.held.Store(true)
	if p.counted != nil {
		p.counted.freeze(at)
	}
}

// thaw ends a freeze: the store has all that was emitted meanwhile.
func (p *progress) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen, p.spans = nil, nil
	p.held.Store(false)
}

// unfreeze ends a freeze during which the cursor did not move: what was held is held on.
func (p *progress) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = nil
	p.held.Store(len(p.spans) > 0)
}

// advance notes that everything up to the sequence was handed to client-go, and wakes the calls that wait.
func (p *progress) advance(sequence uint64) {
	p.emitted.Store(sequence)
	if p.counted != nil && !p.held.Load() {
		p.counted.mark(sequence)
	}
	if p.waiters.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.wakeup)
		p.wakeup = make(chan struct{})
	}
}

// wait blocks until the cursor has reached the sequence.
func (p *progress) wait(ctx context.Context, sequence uint64) error {
	return p.until(ctx,
		func() bool { return p.cursor() >= sequence },
		func() bool { return p.emitted.Load() >= sequence })
}

// has reports whether the store has applied the event of a sequence that was handed to client-go.
func (p *progress) has(sequence uint64) bool {
	if p.counted != nil {
		return p.counted.cursor() >= sequence
	}
	at := p.stored() // first, as in cursor
	if p.held.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.frozen != nil {
			return false
		}
	}
	return at >= sequence
}

// until blocks until done returns true or the context ends. It sleeps until handed says that client-go has the change,
// and then looks often: client-go applies a change within microseconds, and has no event for it.
func (p *progress) until(ctx context.Context, done, handed func() bool) error {
	if done() {
		return nil
	}
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	for look := 0; ; look++ {
		p.mu.Lock()
		wakeup := p.wakeup
		p.mu.Unlock()
		if done() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		pause := time.Duration(min(look, 1000)) * time.Microsecond
		switch {
		case !handed():
			look, pause = 0, 100*time.Millisecond
		case look < 100:
			runtime.Gosched()
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-wakeup:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

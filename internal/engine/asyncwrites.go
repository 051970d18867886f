// The acknowledgements of writes are awaited beside the workers, so that a worker takes its next key meanwhile.
//
// The rule: writes are awaited in the order in which they were submitted, a late one holds up the next for no longer
// than lateAfter, and Submit blocks while too many are under way. The room knows two functions of each write: one waits
// for its outcome, one is called with it.

package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostUnderWay hides the round trip over a network; on loopback 256 do.
	mostUnderWay = 1024
	// lateAfter is how long one write may hold up the next.
	lateAfter = 10 * time.Millisecond
	// grace is how long writes have after CloseSoon. The next run writes again what is lost.
	grace = 2 * time.Second
)

// asyncWrites awaits writes that were sent.
//
// One goroutine awaits them in the order in which they were submitted. A goroutine for each write would be simpler, but
// waking it costs half as much again as all the rest of a write. A write that is late, because it is refused or NATS is
// away, holds up no other for longer than lateAfter: then another goroutine takes over.
type asyncWrites struct {
	ctx      context.Context    // of the writes submitted before CloseSoon
	cancel   context.CancelFunc // ends ctx
	closing  atomic.Bool
	term     atomic.Pointer[term]
	slots    chan struct{} // one element for each write under way
	queue    chan write    // those that are not awaited yet
	awaiting sync.WaitGroup
}

type write struct {
	wait func(context.Context) error
	then func(context.Context, error)
	term *term
}

// term is the time in which writes may be sent again.
type term struct {
	ctx  context.Context // of the caller
	both context.Context // ends also with that of the writes
}

// newAsyncWrites returns writes that are not started.
func newAsyncWrites() *asyncWrites {
	return &asyncWrites{slots: make(chan struct{}, mostUnderWay), queue: make(chan write, mostUnderWay)}
}

// Start must be called before the first Submit. No write outlives ctx.
func (w *asyncWrites) Start(ctx context.Context) {
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.term.Store(&term{ctx, w.ctx})
	w.awaiting.Go(w.await)
}

// BeginTerm says that the writes submitted from now on must end with ctx: one that is not answered by then may have
// been overtaken by another process, and must not be sent again. ctx ends with that of Start, or before.
func (w *asyncWrites) BeginTerm(ctx context.Context) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.ctx, cancel)
	context.AfterFunc(ctx, func() { stop(); cancel() })
	w.term.Store(&term{ctx, both})
}

// Submit hands over a write that was sent: wait returns its outcome, and then is called with it. Both get the context
// in which the write has to end. Submit blocks while too many writes are under way. then may block. Its write counts
// among those under way until it has returned, so a then that submitted another write could wait for itself. The engine
// has none: the answer of a RecordWrite is an Outcome, which has no write.
func (w *asyncWrites) Submit(wait func(context.Context) error, then func(context.Context, error)) {
	w.slots <- struct{}{}
	submitted := write{wait: wait, then: then, term: w.term.Load()}
	if w.closing.Load() { // its reconcile ran on after the stop, when ctx may have ended
		w.awaiting.Go(func() { w.finishLast(submitted) })
		return
	}
	w.queue <- submitted
}

// await finishes writes until one is late; then another goroutine takes over those after it. Each write has a timer
// of its own, which is never reset: it fires at most once, however long the process stands still.
func (w *asyncWrites) await() {
	relieved := make(chan struct{})
	relieve := func() {
		w.awaiting.Go(w.await)
		close(relieved)
	}
	for next := range w.queue {
		late := time.AfterFunc(lateAfter, relieve)
		w.finish(next.term.both, next)
		if !late.Stop() {
			<-relieved // Close waits for the other goroutine only if it began before this one ends
			return
		}
	}
}

func (w *asyncWrites) finish(ctx context.Context, next write) {
	next.then(ctx, next.wait(ctx))
	<-w.slots
}

func (w *asyncWrites) finishLast(last write) {
	ctx, cancel := context.WithTimeout(last.term.ctx, grace)
	defer cancel()
	w.finish(ctx, last)
}

// CloseSoon says that the controller stops: from now on a write has at most two seconds. It does not block, and
// writes may still be submitted.
func (w *asyncWrites) CloseSoon() {
	w.closing.Store(true)
	time.AfterFunc(grace, w.cancel)
}

// Close waits for the writes under way. Nothing may be submitted any more.
func (w *asyncWrites) Close() {
	close(w.queue)
	w.awaiting.Wait()
	w.cancel()
}

package controllerruntime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// asyncWrites awaits writes that were sent, so that the worker that sent one takes the next key meanwhile.
//
//   - One goroutine awaits the writes in the order in which they were submitted. A goroutine for each write would be
//     simpler, but waking it costs half as much again as all the rest of a write.
//   - A write that is late, because it is refused or NATS is away, holds up no other for longer than asyncWriteLate.
//   - At most asyncWritesMost are under way; submit blocks until there is room.
//   - After closeSoon a write has at most asyncWritesGrace. The next run writes again what is lost.
type asyncWrites struct {
	life     context.Context    // of the run
	ctx      context.Context    // of the writes submitted before closeSoon
	cancel   context.CancelFunc // ends ctx
	closing  atomic.Bool
	slots    chan struct{}   // one element for each write under way
	queue    chan asyncWrite // those that nobody awaits yet
	awaiting sync.WaitGroup
}

type asyncWrite struct {
	wait func(context.Context) error
	then func(context.Context, error)
}

const (
	// asyncWritesMost hides the round trip over a network; on loopback 256 do.
	asyncWritesMost  = 1024
	asyncWriteLate   = 10 * time.Millisecond
	asyncWritesGrace = 2 * time.Second
)

func newAsyncWrites() *asyncWrites {
	return &asyncWrites{slots: make(chan struct{}, asyncWritesMost), queue: make(chan asyncWrite, asyncWritesMost)}
}

// start must be called before the first submit. No write outlives ctx.
func (w *asyncWrites) start(ctx context.Context) {
	w.life = ctx
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.awaiting.Go(w.await)
}

// submit hands over a write that was sent: wait returns its outcome, and then is called with it. Both get the context
// in which the write has to end. then may block. It must not submit, because it still has a place among those under way.
func (w *asyncWrites) submit(wait func(context.Context) error, then func(context.Context, error)) {
	w.slots <- struct{}{}
	write := asyncWrite{wait: wait, then: then}
	if w.closing.Load() { // its reconcile ran on after the stop, when ctx may have ended
		w.awaiting.Go(func() { w.finishLast(write) })
		return
	}
	w.queue <- write
}

// await finishes writes until one is late; then another goroutine takes over those after it. Each write has a timer
// of its own, which is never reset: it fires at most once, however long the process stands still.
func (w *asyncWrites) await() {
	relieved := make(chan struct{})
	relieve := func() {
		w.awaiting.Go(w.await)
		close(relieved)
	}
	for write := range w.queue {
		late := time.AfterFunc(asyncWriteLate, relieve)
		w.finish(w.ctx, write)
		if !late.Stop() {
			<-relieved // close waits for the other goroutine only if it began before this one ends
			return
		}
	}
}

func (w *asyncWrites) finish(ctx context.Context, write asyncWrite) {
	write.then(ctx, write.wait(ctx))
	<-w.slots
}

func (w *asyncWrites) finishLast(write asyncWrite) {
	ctx, cancel := context.WithTimeout(w.life, asyncWritesGrace)
	defer cancel()
	w.finish(ctx, write)
}

// closeSoon says that the controller stops. It does not block, and writes may still be submitted.
func (w *asyncWrites) closeSoon() {
	w.closing.Store(true)
	time.AfterFunc(asyncWritesGrace, w.cancel)
}

// close waits for the writes under way. Nothing may be submitted any more.
func (w *asyncWrites) close() {
	close(w.queue)
	w.awaiting.Wait()
	w.cancel()
}

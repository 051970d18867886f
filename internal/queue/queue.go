// Package queue hands keys to workers, the most urgent first, each with the reasons that gathered for it.
//
// The rule: one worker at a time has a key, and all that asks for the key meanwhile makes one more run, with all
// reasons. Retries, requeues and debouncing delay a run and lose none. [Queue.Get] takes a key, [Queue.Done] gives it
// back. Groups of keys may take turns within a priority, and a rate may bound how many keys are reconciled. The queue
// knows keys, reasons and priorities, and nothing of documents. It starts no goroutine.
package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// Queue hands keys to workers, each with the reasons that gathered for it.
//
// As in client-go's workqueue a key is never handed out twice at once, and events during a run make one more.
// Priorities and delays that can be cancelled need an entry for each key anyway, so workqueue's two sets would only
// say it again.
//
// The next run of a key is in one of three states: none; waiting, for a retry, a requeue or quiet (entry.wait is
// set); or due, ready or behind the run in progress (entry.ops is not empty). All reasons of the next run are in one
// place, so none is lost and none is handed out twice. A user's delay is apart from it.
type Queue struct {
	quiet, maxHold time.Duration
	epoch          time.Time // zero of the queue's clock

	mu      sync.Mutex
	wake    sync.Cond // a key became ready, a poll ended, or ShutDown
	closed  bool
	watched map[context.Context]bool // whose end wakes those that wait
	entries map[string]*entry
	most    int      // entries since the map was made
	spare   []*entry // of keys that were forgotten, to be used again
	ready   *order
	inHand  entryList             // those that workers have
	delayed [delayKinds]entryList // those with a delay, by its kind, the one that began first in front
	groups  groups
	rate    *rate // nil: none
	timers  timers
	netpoll *netpoll // nil: none

	adds   uint64        // how often something made a key due
	delays uint64        // how often a key was added with a delay
	rerun  int           // of those in hand, how many are due again
	idle   chan struct{} // closed when none is in hand; nil while there is no waiter
}

// Options are the settings of a queue. The zero value does not debounce.
type Options struct {
	// A key that changes again within DebounceQuiet is postponed, but never longer than DebounceMax after its first
	// change. If either is 0, no key is.
	DebounceQuiet, DebounceMax time.Duration
	// Group names the group of a key: groups take turns. It is called without a lock, by several goroutines. Nil: all
	// keys are of one.
	Group func(key string) string
	Rate  Rate
}

// Item is one hand-out: a key, and what gathered for it since the last one.
type Item struct {
	Key   string
	Ops   operation.Operations // not empty; with the internal bits
	Prio  Priority             // the highest of what asked for it
	Added time.Time            // when the first of them did
	Ahead bool                 // it was due before the backlog whatever its priority: see GoAhead
}

// New returns a queue that works at once. ShutDown stops its timer.
func New(opts Options) *Queue {
	q := &Queue{
		quiet:   opts.DebounceQuiet,
		maxHold: opts.DebounceMax,
		epoch:   time.Now(),
		entries: map[string]*entry{},
		ready:   newOrder(),
		groups:  groups{of: opts.Group},
		rate:    newRate(opts.Rate),
		inHand:  entryList{links: linksByAge},
	}
	for kind := range q.delayed {
		q.delayed[kind].links = linksByDelay
	}
	q.delayed[UserDelay].links = linksByUser
	q.wake.L = &q.mu
	q.timers = newTimers(q.fire)
	return q
}

// Add notes an event. If the key waits for a retry or a requeue, that delay is cancelled, and the reasons it held go
// with this run, but for Retry and Requeue themselves: their delays have not passed. A user's delay stays. Live
// changes are debounced, unless asked for by hand; anything else ends the key's quiet time. After ShutDown Add does
// nothing.
func (q *Queue) Add(key string, ops operation.Operations, prio Priority) {
	now, of := q.now(), q.groups.name(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	ops = ops.OrManual()
	e := q.entry(key, of)
	if q.debounces(ops, prio) && e.ops == 0 {
		q.hold(e, ops, prio, now)
		return
	}
	q.due(e, ops, prio, now, false)
}

// AddAfter notes a reason that counts after d, never earlier; at once if d <= 0. Of two delays of a key the shorter
// wins, with the reasons of both: retry and requeue share one, the user's is apart. A retry or requeue of a key that
// is due anyway is no delay: its reasons, which are older, go with that run.
func (q *Queue) AddAfter(key string, ops operation.Operations, prio Priority, d time.Duration, kind DelayKind) {
	now, of := q.now(), q.groups.name(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if d > 0 {
		q.delays++
	}
	ops = ops.OrManual()
	e := q.entry(key, of)
	if kind != UserDelay {
		q.later(e, ops, prio, now, d, kind, false)
		return
	}
	if d <= 0 {
		q.due(e, ops, prio, now, false)
		return
	}
	e.user = q.delay(e, e.user, ops, prio, now, d, kind)
}

// GiveBack returns the reasons of a hand-out that came to nothing. Before Done the key is due again when Done is
// called, else at once. Events since the hand-out are newer than its reasons, so a Put that is given back does not
// undo a Delete; with Add it would. Nothing new has made the key due, so it counts neither as an add nor as a delay.
func (q *Queue) GiveBack(it Item) { q.GiveBackFor(it, 0) }

// GiveBackFor is GiveBack of a key that is to be looked at again after d.
func (q *Queue) GiveBackFor(it Item, d time.Duration) {
	now, of := q.now(), q.groups.name(it.Key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.later(q.entry(it.Key, of), it.Ops.OrManual(), it.Prio, now, d, RetryDelay, true)
	}
}

// GoAhead is GiveBack of a key that goes before the backlog from now on, because its hand-out has begun something that
// the next one ends. Its priority, which a retry keeps, stays what it is. Call it before Done.
func (q *Queue) GoAhead(it Item) {
	now, of := q.now(), q.groups.name(it.Key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entry(it.Key, of)
	e.ahead = e.ahead || e.running || e.ops == 0
	q.later(e, it.Ops.OrManual(), it.Prio, now, 0, RetryDelay, true)
}

// Get blocks until a key is ready and hands it out; ok is false when ctx has ended or after ShutDown. Then nothing
// more is handed out, whatever is ready: unlike client-go's queue, which drains. Each key must be given back with
// Done.
func (q *Queue) Get(ctx context.Context) (next Item, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.awaitNext(ctx) {
		return Item{}, false
	}
	e := q.pop()
	next = Item{Key: e.key, Ops: e.ops, Prio: e.prio, Added: q.epoch.Add(e.added), Ahead: e.ahead}
	e.ops, e.ahead = 0, false
	e.running = true
	q.inHand.pushBack(e)
	q.pay(e)
	return next, true
}

// Done gives back a key. If something asked for it while it ran, it is ready again. For a key that is not in progress
// Done does nothing.
func (q *Queue) Done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || !e.running {
		return
	}
	e.running = false
	q.inHand.remove(e)
	q.refund(e)
	if e.ops != 0 {
		q.rerun--
		e.readyAt = q.now()
		q.ready.push(e)
		q.wake.Signal()
	}
	q.release(e)
	if q.inHand.len == 0 && q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// CancelDelays forgets a key's delays, the user's too. A run that is due, in progress or debounced stays.
func (q *Queue) CancelDelays(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil {
		return
	}
	if e.wait != nil && e.wait.kind != quietDelay {
		q.cancelWait(e)
	}
	if e.user != nil {
		q.timers.remove(e.user)
		q.endUser(e)
	}
	q.release(e)
}

// CancelDue forgets why a key's next run is due or delayed, unless it was asked for by hand. A user's delay stays.
func (q *Queue) CancelDue(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.running {
		return
	}
	if e.wait != nil && e.wait.ops&operation.ByHand == 0 {
		q.cancelWait(e)
	}
	if e.ops != 0 && e.ops&operation.ByHand == 0 {
		if !e.held {
			q.ready.remove(e)
		}
		e.ops, e.ahead = 0, false
	}
	q.release(e)
}

// CancelDueUnless calls CancelDue for each key that is not kept.
func (q *Queue) CancelDueUnless(keep func(key string) bool) {
	q.mu.Lock()
	keys := slices.Collect(maps.Keys(q.entries))
	q.mu.Unlock()
	for _, key := range keys {
		if !keep(key) {
			q.CancelDue(key)
		}
	}
}

// ShutDown ends the queue: Get returns, Add does nothing, no delay fires. Keys in progress stay so until Done. It may
// be called again.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		q.timers.stop()
		q.wake.Broadcast()
	}
	q.mu.Unlock()
	q.timers.firing.Wait()
}

// WaitIdle returns nil once no key is in progress, or the context's error. Keys that are ready do not count: call it
// after ShutDown.
func (q *Queue) WaitIdle(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.inHand.len == 0 {
			q.mu.Unlock()
			return nil
		}
		if q.idle == nil {
			q.idle = make(chan struct{})
		}
		idle := q.idle
		q.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// now returns the time on the queue's clock, which is monotonic.
func (q *Queue) now() time.Duration { return time.Since(q.epoch) }

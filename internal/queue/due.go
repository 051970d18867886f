package queue

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// later makes the key's next run due after d: a retry, a requeue, or, again, what a hand-out gives back.
func (q *Queue) later(
	e *entry, ops operation.Operations, prio Priority, now, d time.Duration, kind DelayKind, again bool,
) {
	switch {
	case e.ops != 0:
		e.ops = operation.Union(operation.AfterEvent(ops), e.ops)
		q.raise(e, prio)
	case e.wait != nil && e.wait.kind == quietDelay:
		e.wait.ops = operation.Union(operation.AfterEvent(ops), e.wait.ops)
		e.wait.prio = max(e.wait.prio, prio)
	case d <= 0:
		if e.wait != nil {
			ops, prio, again = operation.Union(e.wait.ops, ops), max(e.wait.prio, prio), again && e.wait.again
			q.cancelWait(e)
		}
		q.due(e, ops, prio, now, again)
	default:
		first := e.wait == nil
		e.wait = q.delay(e, e.wait, ops, prio, now, d, kind)
		e.wait.again = again && (first || e.wait.again)
	}
}

// due makes the key's next run due: with ops, and with what a delay of it held. again says that it was due already, for
// the same reasons.
func (q *Queue) due(e *entry, ops operation.Operations, prio Priority, now time.Duration, again bool) {
	if e.wait != nil {
		again = again && e.wait.again
		held := e.wait.ops
		if e.wait.kind != quietDelay {
			held = operation.AfterEvent(held)
			e.added = now
		}
		ops, prio = operation.Union(held, ops), max(e.wait.prio, prio)
		q.cancelWait(e)
	} else if e.ops == 0 {
		e.added = now
	}
	if e.ops != 0 {
		e.ops = operation.Union(e.ops, ops)
		q.raise(e, prio)
		return
	}
	e.ops, e.prio, e.readyAt = ops, prio, now
	if !again {
		q.adds++
	}
	if e.running {
		q.rerun++ // Done makes it ready
		return
	}
	if e.held {
		return // Release does
	}
	q.ready.push(e)
	q.wake.Signal()
}

// raise gives a due key a higher priority.
func (q *Queue) raise(e *entry, prio Priority) {
	if prio <= e.prio {
		return
	}
	if e.running || e.held {
		e.prio = prio
		return
	}
	q.ready.raise(e, prio)
	q.wakeForRaised()
}

// debounces tells whether an event has to wait for quiet.
func (q *Queue) debounces(ops operation.Operations, prio Priority) bool {
	return q.quiet > 0 && q.maxHold > 0 && prio > Background && ops&operation.ByHand == 0
}

// hold postpones a changed key until it is quiet, but never longer than maxHold
// after its first change. The key is not due.
func (q *Queue) hold(e *entry, ops operation.Operations, prio Priority, now time.Duration) {
	switch t := e.wait; {
	case t == nil:
		e.added = now
		e.wait = q.begin(&timer{entry: e, index: -1, ops: ops, prio: prio, kind: quietDelay}, now)
	case t.kind != quietDelay:
		e.added = now
		q.delayed[t.kind].remove(e)
		t.again = false
		t.ops, t.prio, t.kind = operation.Union(operation.AfterEvent(t.ops), ops), max(t.prio, prio), quietDelay
		q.begin(t, now)
	default:
		t.ops, t.prio = operation.Union(t.ops, ops), max(t.prio, prio)
	}
	q.timers.set(e.wait, min(later(now, q.quiet), later(e.added, q.maxHold)), now)
}

// delay sets the timer t of e, or makes one; the shorter delay wins.
func (q *Queue) delay(
	e *entry, t *timer, ops operation.Operations, prio Priority, now, d time.Duration, kind DelayKind,
) *timer {
	due := later(now, d)
	if t == nil {
		t = q.begin(&timer{entry: e, index: -1, ops: ops, prio: prio, kind: kind}, now)
		q.timers.set(t, due, now)
		return t
	}
	t.ops, t.prio = operation.Union(t.ops, ops), max(t.prio, prio)
	if due < t.due {
		q.timers.set(t, due, now)
	}
	return t
}

func (q *Queue) cancelWait(e *entry) {
	q.timers.remove(e.wait)
	q.endWait(e)
}

// begin puts the key of a delay behind those whose delay of that kind began before. Callers read the clock before they
// have the lock, so now may be a moment too early for its place.
func (q *Queue) begin(t *timer, now time.Duration) *timer {
	l := &q.delayed[t.kind]
	t.since = now
	if last := l.back; last != nil {
		t.since = max(now, last.delayOf(t.kind).since)
	}
	l.pushBack(t.entry)
	return t
}

// delayOf is the key's delay of a kind that it has.
func (e *entry) delayOf(kind DelayKind) *timer {
	if kind == UserDelay {
		return e.user
	}
	return e.wait
}

func (q *Queue) endWait(e *entry) {
	q.delayed[e.wait.kind].remove(e)
	e.wait = nil
}

func (q *Queue) endUser(e *entry) {
	q.delayed[UserDelay].remove(e)
	e.user = nil
}

// fireBatch is how many delays fire under one hold of the lock, so that a great
// many that are due together do not keep events and workers waiting.
const fireBatch = 64

// fire makes due what has waited long enough. The runtime timer calls it.
func (q *Queue) fire() {
	defer q.timers.firing.Done()
	q.mu.Lock()
	q.timers.fired()
	for n := 1; ; n++ {
		now := q.now()
		t := q.timers.popDue(now)
		if t == nil {
			break
		}
		q.expire(t, now)
		if n%fireBatch == 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
	}
	if !q.closed {
		q.timers.arm(q.now())
	}
	q.mu.Unlock()
}

// expire makes due what the delay t, which left the heap, held back.
func (q *Queue) expire(t *timer, now time.Duration) {
	e := t.entry
	switch t.kind {
	case rateDelay:
		q.wake.Signal()
		return
	case UserDelay:
		q.endUser(e)
	case RetryDelay, RequeueDelay:
		q.endWait(e)
	case quietDelay: // due takes it off, and knows since when it was held
	}
	q.due(e, t.ops, t.prio, now, t.again)
}

package queue

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// DelayKind says whose delay it is, and so what may cancel it.
type DelayKind uint8

const (
	RetryDelay   DelayKind = iota // backoff after a failed attempt: an event cancels it
	RequeueDelay                  // RequeueAfter: an event cancels it
	UserDelay                     // EnqueueAfter: only CancelDelays cancels it
	quietDelay                    // the queue's own: a changed key that has to be quiet first
	rateDelay                     // the rate's: of no key
	delayKinds                    // how many there are
)

// timer is one delay of one key. A key has at most two: one for its next run and
// one that the user asked for.
type timer struct {
	entry *entry
	due   time.Duration // on the queue's clock
	since time.Duration // when it began
	seq   uint64        // equal dues fire in the order in which they were set
	index int32         // in the heap
	ops   operation.Operations
	prio  Priority
	kind  DelayKind
	again bool // it holds what a hand-out gave back, and nothing else
}

// timers is a heap of delays with one runtime timer for all of them: no goroutine
// and no runtime timer per key, however many keys wait. Between two firings there
// is no goroutine at all. A cancelled delay leaves the heap at once, so an
// overtaken one cannot fire and needs no generation to be told apart.
//
// The queue's lock guards it.
type timers struct {
	fire func() // called without the lock when the first delay may be due

	heap    timerHeap
	seq     uint64
	runtime *time.Timer
	armed   time.Duration  // when runtime fires, or never
	firing  sync.WaitGroup // one for each call of fire that is armed or running
}

const never = time.Duration(math.MaxInt64)

// later returns the time d after t, or never.
func later(t, d time.Duration) time.Duration {
	if d > never-t {
		return never
	}
	return t + d
}

func newTimers(fire func()) timers { return timers{fire: fire, armed: never} }

// set adds t, or moves it if it is in the heap already.
func (ts *timers) set(t *timer, due, now time.Duration) {
	ts.seq++
	t.due, t.seq = due, ts.seq
	if t.index < 0 {
		heap.Push(&ts.heap, t)
	} else {
		heap.Fix(&ts.heap, int(t.index))
	}
	ts.arm(now)
}

// remove takes t out. The runtime timer stays armed: firing once for nothing is
// cheaper than being reset by every event that cancels a delay. A delay that is in
// the heap no more, because it fired or after stop, is none to take out.
func (ts *timers) remove(t *timer) {
	if t.index >= 0 {
		heap.Remove(&ts.heap, int(t.index))
	}
}

// popDue takes out the first delay if it is due.
func (ts *timers) popDue(now time.Duration) *timer {
	if len(ts.heap) == 0 || ts.heap[0].due > now {
		return nil
	}
	return heap.Pop(&ts.heap).(*timer)
}

// arm makes the runtime timer fire when the first delay is due.
func (ts *timers) arm(now time.Duration) {
	if len(ts.heap) == 0 || ts.heap[0].due >= ts.armed {
		return
	}
	ts.armed = ts.heap[0].due
	wait := ts.armed - now
	switch {
	case ts.runtime == nil:
		ts.firing.Add(1)
		ts.runtime = time.AfterFunc(wait, ts.fire)
	case !ts.runtime.Reset(wait):
		ts.firing.Add(1) // it had fired or was stopped: this is one more call
	}
}

// fired notes that the runtime timer is no longer armed.
func (ts *timers) fired() { ts.armed = never }

// stop forgets all delays. A call of fire may still be on its way: wait for it
// with firing.Wait, without the lock.
func (ts *timers) stop() {
	for _, t := range ts.heap {
		t.index = -1
	}
	ts.heap = nil
	if ts.runtime != nil && ts.runtime.Stop() {
		ts.firing.Done()
	}
}

// timerHeap implements heap.Interface, the first due in front.
type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].seq < h[j].seq
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = int32(len(*h))
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}

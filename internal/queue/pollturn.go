package queue

import (
	"context"
	"time"
)

// breath lets live changes in while workers go through a backlog. Go's scheduler polls the network when a processor
// finds nothing to run, and else every 10 ms (sysmon, in runtime/proc.go). Reconciles that find everything in the
// caches never block, so with a long backlog each step of a live change, event and answer to the write of its anchor,
// waits that long and then behind the workers. A breath is a pause in the hand-out of background keys until the
// network was polled. It does not wait for reconciles, and live and secondary keys are handed out meanwhile; while
// some are ready nobody breathes, so a first pass, whose keys come back as secondary ones when their anchors are
// written, has few breaths. The queue's lock guards it.
//
// Measured by BenchmarkChangeInBacklog, on two processors shared with the server and other loads, with a breath in
// each millisecond, in turns: a live change took 65 ms at the median without breaths and 4 ms with them, beside
// another queue with a backlog 219 ms and 3 ms; on a quieter machine it was 6.5 ms and 3.6 ms. Half of the breaths
// took less than 8 µs. Workers that merely yield (runtime.Gosched) for 50 µs in each millisecond, while the others
// are held, gave 5 to 12 ms where this gave 2 to 3 ms: a goroutine that yields is something to run.
type breath struct {
	poll   func() error // returns when the network was polled
	taking bool
	since  time.Duration // when the last one ended, or a worker found nothing to do: then a processor polls anyway
	pause  time.Duration // from then to the next one
	futile int           // how many in a row freed no processor
}

const (
	// breathEvery is how long background keys are handed out in a row. With half of it changes took two thirds of the
	// time, but 8 workers with an empty reconciler lost an eighth of their throughput, which with this they did not.
	breathEvery = 2 * time.Millisecond
	// breathFutile is how long a breath takes that did not free a processor: others compute too, and it was the
	// scheduler's own poll, every 10 ms, that ended it. Another controller with a backlog ends one within about
	// breathEvery.
	breathFutile = 5 * time.Millisecond
	// breathRests bounds the pauses after futile breaths, which double from each to the next, to 31 times the length
	// of the last: beside goroutines that never block about 3 % of the time is lost, where pauses of breathEvery left
	// a tenth of the throughput. One alone means nothing: one in a hundred meets a garbage collection, or waits for a
	// processor itself.
	breathRests = 5
)

func newBreath(poll func() error) *breath { return &breath{poll: poll, pause: breathEvery} }

func (b *breath) due(now time.Duration) bool { return !b.taking && now-b.since >= b.pause }

// ended notes a breath that ended now.
func (b *breath) ended(now, took time.Duration) {
	b.taking, b.since = false, now
	if took < breathFutile {
		b.futile, b.pause = 0, breathEvery
		return
	}
	b.pause = max(breathEvery, took*(1<<b.futile-1))
	b.futile = min(b.futile+1, breathRests)
}

// breathes makes workers breathe from now on; poll is called by one at a time. If it fails there are no more breaths.
func (q *Queue) SetPoll(poll func() error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.breath = nil
	if poll != nil {
		q.breath = newBreath(poll)
	}
}

// awaitNext returns true when there is a key to hand out now, and false when ctx has ended or after ShutDown. The
// lock is held, but not while it waits.
func (q *Queue) awaitNext(ctx context.Context) bool {
	var stop func() bool
	wait := func() {
		if stop == nil {
			stop = context.AfterFunc(ctx, q.wakeAll)
		}
		q.wake.Wait()
	}
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	for !q.closed && ctx.Err() == nil {
		b := q.breath
		switch {
		case q.ready.len() == 0:
			wait()
			if b != nil {
				b.since = q.now()
			}
		case b == nil || !q.ready.onlyBackground():
			return true
		case b.taking:
			wait()
		case !b.due(q.now()):
			return true
		default:
			q.breathe(b)
		}
	}
	q.wake.Signal() // the key that this call may have been woken for is for another worker
	return false
}

func (q *Queue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake.Broadcast()
}

// roused is told of a ready key whose priority was raised: during a breath workers wait though keys are ready.
func (q *Queue) roused() {
	if q.breath != nil && q.breath.taking {
		q.wake.Signal()
	}
}

// pop takes the next key: during a breath never a background one, which the oldest may be.
func (q *Queue) pop() *entry {
	if q.breath != nil && q.breath.taking {
		return q.ready.popFirst()
	}
	return q.ready.pop()
}

func (q *Queue) breathe(b *breath) {
	b.taking = true
	start := q.now()
	q.mu.Unlock()
	err := b.poll()
	q.mu.Lock()
	now := q.now()
	b.ended(now, now-start)
	if err != nil {
		q.breath = nil
	}
	q.wake.Broadcast()
}

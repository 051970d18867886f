package queue

import (
	"context"
	"time"
)

// netpoll lets live changes in while workers go through a backlog: it polls the network once in each pollInterval.
// Go's scheduler polls it when a processor finds nothing to run, else every 10 ms. Reconciles that find everything in
// the caches never block, so during a backlog each step of a live change would wait that long.
//
// The rules:
//
//   - A worker that is about to take a background key polls first, if a poll is due.
//   - During a poll no background key is handed out. Live and secondary keys are.
//   - While live or secondary keys are ready no poll starts.
//   - A poll does not wait for reconciles that run.
//   - A worker that found no ready key counts as a poll: its processor has polled.
//   - Polls that take long become rare. A poll that fails is the last one.
//
// BenchmarkChangeInBacklog in package controller measures it. On two busy processors a poll in each millisecond took
// the median of a live change from 65 ms to 4 ms. Workers that yield (runtime.Gosched) are no substitute: changes took
// two to four times as long, because a goroutine that yields is something to run.
//
// The queue's lock guards it.
type netpoll struct {
	poll    func() error // returns when the network was polled
	running bool
	last    time.Duration // when the last poll ended, or a worker found no ready key
	pause   time.Duration // from then to the next poll
	slow    int           // polls in a row that took longPoll or more, at most mostSlow
}

const (
	// pollInterval is how long background keys are handed out between two polls. Half of it made live changes a third
	// faster, but cost 8 workers with an empty reconciler an eighth of their throughput.
	pollInterval = 2 * time.Millisecond
	// longPoll is how long a poll takes that found no free processor: the scheduler's own poll, every 10 ms, ended
	// it. The cause is another computation. Another controller with a backlog ends a poll within about pollInterval.
	longPoll = 5 * time.Millisecond
	// mostSlow bounds the pause after long polls. The pause doubles with each long poll in a row, to 31 times the
	// length of the last. So computations beside the workers cost them about 3 % of their time. The first long poll
	// does not count: it may have met a garbage collection.
	mostSlow = 5
)

func newNetpoll(poll func() error) *netpoll { return &netpoll{poll: poll, pause: pollInterval} }

func (p *netpoll) due(now time.Duration) bool { return !p.running && now-p.last >= p.pause }

// ended notes the end of a poll and sets the pause to the next one.
func (p *netpoll) ended(now, took time.Duration) {
	p.running, p.last = false, now
	if took < longPoll {
		p.slow, p.pause = 0, pollInterval
		return
	}
	p.pause = max(pollInterval, took*(1<<p.slow-1))
	p.slow = min(p.slow+1, mostSlow)
}

// SetPoll makes workers call poll from time to time while they go through a backlog; nil ends that. One worker calls
// it at a time. After it fails it is not called again.
func (q *Queue) SetPoll(poll func() error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.netpoll = nil
	if poll != nil {
		q.netpoll = newNetpoll(poll)
	}
}

// awaitNext returns true when there is a key to hand out now, and false when ctx has ended or after ShutDown. The
// caller holds the lock; awaitNext gives it up while it waits or polls.
func (q *Queue) awaitNext(ctx context.Context) bool {
	wait := func() {
		q.watch(ctx)
		q.wake.Wait()
	}
	for !q.closed && ctx.Err() == nil {
		p := q.netpoll
		switch {
		case q.ready.len() == 0 || !q.inRate():
			wait()
			if p != nil {
				p.last = q.now()
			}
		case p == nil || !q.ready.onlyBackground():
			return true
		case p.running:
			wait()
		case !p.due(q.now()):
			return true
		default:
			q.pollNetwork(p)
		}
	}
	q.wake.Signal() // the key that this call may have been woken for is for another worker
	return false
}

// watch has the end of ctx wake all that wait. A context is registered once, however often workers wait with it,
// because that allocates. The caller holds the lock.
func (q *Queue) watch(ctx context.Context) {
	if ctx.Done() == nil || q.watched[ctx] {
		return
	}
	if q.watched == nil {
		q.watched = map[context.Context]bool{}
	}
	q.watched[ctx] = true
	context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.watched, ctx)
		q.wake.Broadcast()
	})
}

// wakeForRaised wakes a worker for a ready key whose priority was raised: during a poll workers wait although
// background keys are ready.
func (q *Queue) wakeForRaised() {
	if q.netpoll != nil && q.netpoll.running {
		q.wake.Signal()
	}
}

// pop takes the next key. During a poll that is not the oldest, which may be a background key.
func (q *Queue) pop() *entry {
	if q.netpoll != nil && q.netpoll.running {
		return q.ready.popFirst()
	}
	return q.ready.pop()
}

// pollNetwork polls without the lock, and wakes the workers that waited for the end of the poll.
func (q *Queue) pollNetwork(p *netpoll) {
	p.running = true
	start := q.now()
	q.mu.Unlock()
	err := p.poll()
	q.mu.Lock()
	now := q.now()
	p.ended(now, now-start)
	if err != nil {
		q.netpoll = nil
	}
	q.wake.Broadcast()
}

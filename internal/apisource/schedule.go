package apisource

import (
	"sync"
	"time"
)

// schedule says when the next list is due. The zero value, with wake, lists at once.
type schedule struct {
	wake chan struct{}

	mu       sync.Mutex
	next     time.Time // on the interval
	wanted   time.Time // zero: none is wanted
	pushed   time.Time // until when a list may not show yet what was pushed
	earliest time.Time // of a list that is wanted
	running  time.Time // when the last list was begun
	called   time.Time // when its turn came
	last     time.Time // when the last one that succeeded was begun
}

const (
	// WantedGap passes at least between two lists that are asked for, and gapLists times as long as a list takes. So
	// many teardowns or pushes share one list, and the API is busy with those lists for a small part of the time only.
	WantedGap = 50 * time.Millisecond
	gapLists  = 10
	// pushSeen is how long a list may not show yet what was pushed: APIs push a change before they have made it.
	pushSeen = 500 * time.Millisecond
)

func (l *schedule) begin() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.wanted = time.Now(), time.Time{}
	l.called = l.running
	if l.running.Before(l.pushed) {
		l.wanted = l.pushed // once more
	}
	return l.running
}

// push is told that something has changed, or is about to.
func (l *schedule) push(settle time.Duration) {
	l.mu.Lock()
	l.pushed = time.Now().Add(max(pushSeen, settle))
	l.mu.Unlock()
	l.want(time.Now())
}

// turn is told that the API is called now. The list has waited for the rate limit.
func (l *schedule) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = time.Now()
}

// end is told that a list is over; succeeded is when it was begun, zero if it failed.
func (l *schedule) end(interval time.Duration, succeeded time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.next = now.Add(interval)
	l.earliest = now.Add(max(WantedGap, gapLists*now.Sub(l.called)))
	if !succeeded.IsZero() {
		l.last = succeeded
	}
}

// lastListed is when the last list began that succeeded; zero if there was none.
func (l *schedule) lastListed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *schedule) want(at time.Time) {
	l.mu.Lock()
	if l.wanted.IsZero() || at.Before(l.wanted) {
		l.wanted = at
	}
	l.mu.Unlock()
	l.poke()
}

func (l *schedule) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// WantList asks for a list that begins at this time or soon after. While the API is away it is polled instead.
func (s *Source) WantList(at time.Time) { s.schedule.want(at) }

// untilList is how long to wait for the next list.
func (s *Source) untilList() time.Duration {
	if poll, open := s.breaker.nextPoll(); open {
		return time.Until(poll)
	}
	l := &s.schedule
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.next
	if !l.wanted.IsZero() {
		wanted := l.wanted
		if wanted.Before(l.earliest) {
			wanted = l.earliest
		}
		if wanted.Before(due) {
			due = wanted
		}
	}
	return time.Until(due)
}

package apisource

import (
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/queue"
)

// keyState is what a source remembers of one key. Most keys have none. What it points to is not changed, but replaced.
type keyState struct {
	awaited    *awaitedList
	expected   *expectedCount
	waiting    *queue.Item // it waits in the breaker, with its operations
	turnedAway bool        // the turn of its call would have been long in coming
	failing    time.Time   // when a call failed last; zero: none, or its reconcile has ended and the key does not wait
}

// awaitedList is the list that the teardown of a key needs: one that began after a moment.
type awaitedList struct {
	since time.Time
	came  bool // and the key was made due
}

// expectedCount is how many resources of a key a list shows at least that began after a moment, because reconciles of
// the key made them. It catches a resource that is deleted before any list saw it. Comparing two lists cannot.
type expectedCount struct {
	since time.Time
	least int
}

// keyCounts says of how many keys something is remembered.
type keyCounts struct{ awaited, waiting, turnedAway atomic.Int64 }

func (c *keyCounts) tally(s keyState, by int) {
	if s.awaited != nil {
		c.awaited.Add(int64(by))
	}
	if s.waiting != nil {
		c.waiting.Add(int64(by))
	}
	if s.turnedAway {
		c.turnedAway.Add(int64(by))
	}
}

// takeWaiting returns the item of a key that waits in the breaker, which then waits no longer.
func (s *Source) takeWaiting(key string) (it queue.Item, waited bool) {
	s.keys.amend(key, func(state *keyState) {
		if state.waiting != nil {
			it, waited = *state.waiting, true
			state.waiting = nil
		}
	})
	return it, waited
}

// waitingKeys lists the keys that wait in the breaker.
func (s *Source) waitingKeys() []string {
	return s.keys.where(func(state keyState) bool { return state.waiting != nil })
}

// isFailing tells whether the reconcile of a call that failed goes on. After the time that a call may take it does not
// count any more.
func (s *Source) isFailing() bool {
	return len(s.keys.where(func(state keyState) bool {
		return !state.failing.IsZero() && time.Since(state.failing) < s.config.Timeout
	})) > 0
}

// forgetTurn forgets that a key was turned away: it needs no turn any more, or it got one.
func (s *Source) forgetTurn(key string) {
	s.keys.amend(key, func(state *keyState) { state.turnedAway = false })
}

// forgetAwaited forgets for which list a key waits.
func (s *Source) forgetAwaited(key string) {
	s.keys.amend(key, func(state *keyState) { state.awaited = nil })
}

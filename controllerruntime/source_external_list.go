package controllerruntime

import (
	"context"
	"fmt"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listSchedule says when the next list is due. The zero value, with wake, lists at once.
type listSchedule struct {
	wake chan struct{}

	mu       sync.Mutex
	next     time.Time // on the interval
	wanted   time.Time // by somebody; zero: nobody
	pushed   time.Time // until when what was pushed may not be shown yet
	earliest time.Time // of a list that is wanted
	running  time.Time // when the one that runs was begun
	called   time.Time // when its turn came
	last     time.Time // when the last one that succeeded was begun
}

const (
	// Between two lists that somebody wants at least wantedGap passes, and wantedGapLists times as long as a list takes: many
	// teardowns or pushes share one list, and the API is busy with those lists for a small part of the time only.
	wantedGap      = 50 * time.Millisecond
	wantedGapLists = 10
	// pushSeen is how long a list may not show yet what was pushed: APIs tell of a change before they have made it.
	pushSeen = 500 * time.Millisecond
)

func (l *listSchedule) begin() time.Time {
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
func (l *listSchedule) push(settle time.Duration) {
	l.mu.Lock()
	l.pushed = time.Now().Add(max(pushSeen, settle))
	l.mu.Unlock()
	l.want(time.Now())
}

// turn is told that the list that was begun is made now: it has waited for the rate limit.
func (l *listSchedule) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = time.Now()
}

// end is told that a list is over; succeeded is when it was begun, zero if it failed.
func (l *listSchedule) end(interval time.Duration, succeeded time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.next = now.Add(interval)
	l.earliest = now.Add(max(wantedGap, wantedGapLists*now.Sub(l.called)))
	if !succeeded.IsZero() {
		l.last = succeeded
	}
}

func (l *listSchedule) want(at time.Time) {
	l.mu.Lock()
	if l.wanted.IsZero() || at.Before(l.wanted) {
		l.wanted = at
	}
	l.mu.Unlock()
	l.poke()
}

func (l *listSchedule) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wantList asks for a list that begins at this time or soon after. While the API is away it is polled instead.
func (s *externalSource) wantList(at time.Time) { s.lists.want(at) }

// untilList is how long to wait for the next list.
func (s *externalSource) untilList() time.Duration {
	if poll, open := s.breaker.nextPoll(); open {
		return time.Until(poll)
	}
	l := &s.lists
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

// askedList is for a key whose teardown needs a list that was begun after a moment.
type askedList struct {
	since time.Time
	came  atomic.Bool // and the key was made due
}

// caughtUp tells whether the cache, which does not show by itself what was written, is from a time after it was first asked
// for the key. If not, the key is due again when it is. What the last reconcile created is in such a list, and so is
// whether what was deleted is gone. That holds until the key's next delete: the lists of other sources may come later.
func (s *externalSource) caughtUp(key string) bool {
	asked, ok := s.asked.get(key)
	if !ok {
		asked = &askedList{since: time.Now().Add(s.config.Settle)}
		s.asked.put(key, asked)
	}
	return s.listedSince(asked.since)
}

// listedSince tells whether the cache is of a list begun after this time. If not, one is wanted.
func (s *externalSource) listedSince(since time.Time) bool {
	s.lists.mu.Lock()
	last := s.lists.last
	s.lists.mu.Unlock()
	if last.After(since) {
		return true
	}
	s.wantList(since)
	return false
}

// wakeAsked makes the keys due that waited for a list begun at this time, or that have to ask for another.
func (s *externalSource) wakeAsked(begun time.Time) {
	for _, key := range s.asked.all() {
		asked, ok := s.asked.get(key)
		switch {
		case !ok || asked.came.Load():
		case !begun.After(asked.since):
			s.wantList(asked.since)
		case s.engine.Notice(key, operation.Of(OperationExternal), queue.Secondary):
			asked.came.Store(true)
		default:
			s.asked.forget(key) // another replica works
		}
	}
}

// madeHere is that a list begun after a moment has to show so many resources of a key, because its reconcile made them. What is
// deleted before any list has shown it is missed by no comparison of two lists.
type madeHere struct {
	since time.Time
	least int
}

// made is told of what was written down about a resource: maybe that it was created.
func (e *engine) made(key, resource string, kept keptIntents, before, after external.Entry) {
	kind, _, _ := strings.Cut(resource, "/")
	s := e.external(kind)
	created := before.Intent != nil && before.Intent.Action == external.ActionCreate && after.Intent == nil && after.Applied == before.Intent.Digest
	if s == nil || !created {
		return
	}
	settle := s.config.Settle
	if after.Created != nil {
		settle = max(settle, after.Created.Settle)
	}
	made := madeHere{since: time.Now().Add(settle)}
	for other, entry := range kept.Resources {
		if of, _, _ := strings.Cut(other, "/"); of == kind && entry.Intent == nil && !entry.ObserveOnly {
			made.least++
		}
	}
	s.made.put(key, made)
}

// tellMissing tells of the keys whose resources were made before a list that was begun at this time, and are not in it.
func (s *externalSource) tellMissing(begun time.Time) {
	for _, key := range s.made.all() {
		made, ok := s.made.take(key)
		switch {
		case !ok:
		case !begun.After(made.since):
			s.made.change(key, func(newer madeHere, known bool) madeHere {
				if known {
					return newer
				}
				return made
			})
		case len(s.cache.ownedBy(key)) < made.least:
			s.missing(key)
		}
	}
}

// behind asks all sources that lag, and returns them: nil if none does.
func (e *engine) behind(key string) (behind []source.Owned) {
	for _, s := range e.externals {
		if !s.caughtUp(key) {
			behind = append(behind, s)
		}
	}
	return behind
}

// cannotList is why a key that waits for a list waits longer: it belongs into the breaker of an API that is away. nil if all
// can be listed.
func (e *engine) cannotList(key string) error {
	for _, s := range e.externals {
		if err := s.breaker.cannotList(); err != nil {
			return fmt.Errorf("list what %s %q owns: %w", e.kind, key, err)
		}
	}
	return nil
}

// forgetAllAsked is for the end of a term: what was asked for, and who was turned away, is the next one's business, maybe of
// another replica, and a list that was asked for in this one says nothing about what that one does.
func (e *engine) forgetAllAsked() {
	for _, s := range e.externals {
		for _, key := range s.asked.all() {
			s.asked.forget(key)
		}
		for _, key := range s.turnedAway.all() {
			s.turnedAway.forget(key)
		}
	}
}

// forgetAsked is for a key that has a document: what it waited for is of no interest any more.
func (e *engine) forgetAsked(key string) {
	for _, s := range e.externals {
		s.asked.forget(key)
	}
}

// listedFor makes sure that a key whose teardown has to know is due when a list was begun after this time.
func (s *externalSource) listedFor(_ context.Context, key string, since time.Time) bool {
	if s.listedSince(since) {
		return true
	}
	if asked, ok := s.asked.get(key); !ok || asked.since.Before(since) {
		s.asked.put(key, &askedList{since: since})
	}
	return false
}

package apisource

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/klog/v2"
)

// run lists until the source stops: on the interval, when a list is asked for, and, with backoff, while the API is
// away.
func (s *Source) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.schedule.wake:
		}
		wait := s.untilList()
		if wait <= 0 {
			s.list(ctx)
			wait = s.untilList()
		}
		timer.Reset(wait)
	}
}

// list compares the resources with those of the last list. A list that fails changes nothing.
func (s *Source) list(ctx context.Context) {
	begun := s.schedule.begin()
	resources, err := s.listNow(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("List failed", "source", s.String(), "err", err)
		s.schedule.end(jittered(s.config.Interval), time.Time{})
		s.breaker.pollFailed(err)
		return
	}
	first := !s.hasListed()
	for _, c := range s.cache.replace(s, resources) {
		switch {
		case c.before == nil:
			s.Events.Created(ctx, c.after, first)
		case c.after == nil:
			s.Events.Deleted(ctx, c.before)
		default:
			s.Events.Updated(ctx, c.before, c.after)
		}
	}
	if first {
		close(s.listed)
	}
	s.undeleted.lookedAt(begun, s.config.Settle, s.cache.ownerOf)
	s.schedule.end(jittered(s.config.Interval), begun)
	s.breaker.listed()
	s.shared.Changed(ctx, s)
	s.wakeAwaiting(begun)
	s.reportMissing(begun)
}

func (s *Source) listNow(ctx context.Context) (resources []external.Resource, err error) {
	limited, cancel, err := s.turn(external.WithCall(ctx, callList))
	if err != nil {
		return nil, err
	}
	defer cancel()
	s.schedule.turn()
	err = guard.Call(func() (err error) {
		resources, err = s.client.List(limited)
		return err
	})
	return resources, err
}

func (s *Source) hasListed() bool {
	select {
	case <-s.listed:
		return true
	default:
		return false
	}
}

// jittered is d, give or take a tenth.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// caughtUp reports whether the last list began later than Settle after the teardown of this key first asked. If not,
// it asks for a list, which makes the key due.
func (s *Source) caughtUp(key string) bool {
	awaited := s.keys.of(key).awaited
	if awaited == nil {
		awaited = &awaitedList{since: time.Now().Add(s.config.Settle)}
		s.keys.change(key, func(state *keyState) { state.awaited = awaited })
	}
	return s.listedSince(awaited.since)
}

// listedSince tells whether the cache is of a list that began after this time. If not, it asks for one.
func (s *Source) listedSince(since time.Time) bool {
	if s.schedule.lastListed().After(since) {
		return true
	}
	s.WantList(since)
	return false
}

// listedFor is listedSince for a key. If there is no such list yet, the key is due when there is.
func (s *Source) listedFor(key string, since time.Time) bool {
	if s.listedSince(since) {
		return true
	}
	if awaited := s.keys.of(key).awaited; awaited == nil || awaited.since.Before(since) {
		s.keys.change(key, func(state *keyState) { state.awaited = &awaitedList{since: since} })
	}
	return false
}

// wakeAwaiting makes the keys due that waited for a list begun at this time, and asks for another list where one is
// needed.
func (s *Source) wakeAwaiting(begun time.Time) {
	for _, key := range s.keys.where(func(state keyState) bool { return state.awaited != nil && !state.awaited.came }) {
		awaited := s.keys.of(key).awaited
		switch {
		case awaited == nil || awaited.came:
		case !begun.After(awaited.since):
			s.WantList(awaited.since)
		case s.shared.Host.Notice(key, operation.Of(operation.External), queue.Secondary):
			s.keys.amend(key, func(state *keyState) {
				if state.awaited == awaited {
					state.awaited = &awaitedList{since: awaited.since, came: true}
				}
			})
		default:
			s.forgetAwaited(key) // another replica works
		}
	}
}

// expect says how many resources of a key a list shows at least that begins after this time.
func (s *Source) expect(key string, least int, since time.Time) {
	s.keys.change(key, func(state *keyState) { state.expected = &expectedCount{since: since, least: least} })
}

// reportMissing reports the keys that have fewer resources than expected of a list that began at this time.
func (s *Source) reportMissing(begun time.Time) {
	due := func(expected *expectedCount) bool { return expected != nil && begun.After(expected.since) }
	for _, key := range s.keys.where(func(state keyState) bool { return due(state.expected) }) {
		least := 0
		s.keys.amend(key, func(state *keyState) {
			if due(state.expected) { // a reconcile may have made more since
				least, state.expected = state.expected.least, nil
			}
		})
		if len(s.cache.ownedBy(key)) < least {
			s.Missing(key)
		}
	}
}

package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// take takes the slots of owners who are not there: T2 and T3.
func (s *Shards) take(l *life, slots map[string][]int) {
	defer func() {
		s.mu.Lock()
		l.taking = false
		s.mu.Unlock()
		s.look()
	}()
	again := false
	for owner, of := range slots {
		gone, err := s.isGone(l.ctx, owner)
		again = again || !gone
		if l.ctx.Err() == nil {
			s.ReportMoves(l.ctx, err)
		}
		if !gone {
			continue
		}
		var writes sync.WaitGroup
		var left atomic.Bool
		turns := make(chan struct{}, atOnce)
		for _, slot := range of {
			turns <- struct{}{}
			writes.Go(func() {
				defer func() { <-turns }()
				if !s.takeOne(l, owner, slot) {
					left.Store(true)
				}
			})
		}
		writes.Wait()
		again = again || left.Load()
	}
	if again {
		pause(l.ctx, retryPause)
	}
}

// isGone asks the leader of the stream whether an owner's lease is gone: T2.
func (s *Shards) isGone(ctx context.Context, owner string) (bool, error) {
	s.mu.Lock()
	gone := owner == "" || s.view.gone[owner]
	s.mu.Unlock()
	if gone {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	value, revision, err := s.Store.Load(ctx, memberKey(owner))
	if err != nil {
		return false, fmt.Errorf("look whether member %s is gone: %w", owner, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision != 0 {
		s.view.apply(Entry{Key: memberKey(owner), Revision: revision, Value: value}) // the view is behind
		return false, nil
	}
	if at, early := s.view.lastSeen(owner); early && time.Since(at) < s.Duration {
		return false, s.view.early.why(owner, s.Duration) // T4: it may work
	}
	delete(s.view.early, owner)
	s.view.gone[owner] = true
	delete(s.view.members, owner)
	s.view.heard = false
	return true, nil
}

// takeOne takes one slot, and reports whether it could: T3. move gains it, as any slot in which the view shows the own
// id.
func (s *Shards) takeOne(l *life, from string, slot int) bool {
	s.mu.Lock()
	is := s.view.slots[slot]
	s.mu.Unlock()
	if is.owner != from || l.ctx.Err() != nil {
		return true // it has moved
	}
	revision, owner, err := s.write(l.ctx, slot, l.id, is.revision)
	vanished := errors.Is(err, errVanished)
	if err != nil && !vanished {
		if l.ctx.Err() == nil {
			s.ReportMoves(l.ctx, fmt.Errorf("take slot %d: %w", slot, err))
		}
		return false // the next look tries again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if vanished {
		s.vanished(slot, is.revision)
		return false
	}
	s.leaderSays(slot, is.revision, revision, owner)
	return owner == l.id
}

// leaderSays notes who has a slot that the view has at a revision. The leader knows better, even if what it says is
// older: then the stream went back, and what told of owners is gone (T4). s.mu is held.
func (s *Shards) leaderSays(slot int, was, revision uint64, owner string) {
	if revision < was {
		s.vanished(slot, was)
	}
	s.view.apply(Entry{Key: slotKey(slot), Revision: revision, Value: encode(owned{owner})})
}

package shards

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Run is a member until ctx ends. Then it leaves: it hands its slots over for as long as grace allows, and ends what
// still runs. It returns when nothing does. The contexts of work have the values of over, and end with it.
func (s *Shards) Run(ctx, over context.Context, grace func() (context.Context, context.CancelFunc)) {
	for ctx.Err() == nil && over.Err() == nil {
		if err := s.live(ctx, over, grace); err != nil && ctx.Err() == nil {
			s.Report(ctx, err)
			pause(ctx, retryPause)
		}
	}
}

// live is one life.
func (s *Shards) live(ctx, over context.Context, grace func() (context.Context, context.CancelFunc)) error {
	if !s.awaitListed(ctx) {
		return nil
	}
	id := idOf(s.Name, time.Now())
	l := &life{id: id, before: s.before, slots: map[int]*held{}, urgent: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancelCause(over)
	defer l.cancel(ErrLeft)
	lease := &leaseOf{Shards: s, life: l}
	if err := lease.join(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.life, s.view.heard = l, false
	s.mu.Unlock()
	var renewing sync.WaitGroup
	renewing.Go(lease.renew)
	renewing.Go(lease.expire)
	joining, stopped := context.WithCancel(l.ctx)
	defer stopped()
	stop := context.AfterFunc(ctx, stopped)
	if s.join(joining, l); stop() {
		s.work(ctx, l, grace)
		s.ReportRest(over, nil)
	}
	l.cancel(ErrLeft)
	renewing.Wait()
	l.moving.Wait()
	s.awaitIdle(ctx)
	s.mu.Lock()
	s.life, s.before = nil, l.id
	s.mu.Unlock()
	s.deadline.Store(nil)
	lease.leave()
	return nil
}

// awaitIdle returns when nothing runs that began in a life that is over. No other life begins before, and it says so.
func (s *Shards) awaitIdle(ctx context.Context) {
	idle := s.Host.Idle()
	select {
	case <-idle:
		return
	default:
	}
	if ctx.Err() == nil {
		s.Report(ctx, errAwaitsIdle)
	}
	<-idle
}

func (s *Shards) awaitListed(ctx context.Context) bool {
	for {
		s.mu.Lock()
		listed := s.listed
		s.mu.Unlock()
		if listed {
			return true
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return false
		}
	}
}

// work moves slots until the life is over.
func (s *Shards) work(ctx context.Context, l *life, grace func() (context.Context, context.CancelFunc)) {
	again := time.NewTicker(retryPause)
	defer again.Stop()
	stopping := ctx.Done()
	var patience <-chan struct{}
	for {
		s.move(l)
		if s.hasLeft(l) {
			s.finish(l, patience)
			return
		}
		select {
		case <-s.changed:
		case <-again.C:
		case <-l.ctx.Done():
			s.mu.Lock()
			s.die(l)
			s.mu.Unlock()
			return
		case <-stopping:
			bounded, cancel := grace()
			defer cancel()
			stopping, patience = nil, bounded.Done()
			s.mu.Lock()
			l.leaving = true
			s.mu.Unlock()
			l.tell()
		case <-patience:
			l.cancel(ErrLeft)
		}
	}
}

// finish lets what runs in slots that there is nobody to hand to end by itself, for as long as patience is open.
// Nothing starts there.
func (s *Shards) finish(l *life, patience <-chan struct{}) {
	s.mu.Lock()
	for slot := range l.slots {
		s.epochs[slot].Store(0)
	}
	s.mu.Unlock()
	select {
	case <-s.Host.Idle():
	case <-patience:
	case <-l.ctx.Done():
	}
}

// hasLeft reports whether a member that leaves has handed over all, or there is nobody to hand it to.
func (s *Shards) hasLeft(l *life) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.leaving && (len(l.slots) == 0 || len(s.view.candidatesBut(l.id)) == 0 && !l.handing())
}

// overdue is why slots are not handed over; nil if none waits for what has not returned in time.
func (l *life) overdue() error {
	slots := 0
	for _, h := range l.slots {
		if h.draining && h.overdue {
			slots++
		}
	}
	if slots == 0 {
		return nil
	}
	return fmt.Errorf("%d slots are not handed over, and nothing starts in them: what runs there has not returned, "+
		"although its context has ended", slots)
}

// handing reports whether a slot is just being given to another member.
func (l *life) handing() bool {
	for _, h := range l.slots {
		if h.handing {
			return true
		}
	}
	return false
}

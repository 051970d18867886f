package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// stuckTeardowns are those that failed twice or more in a row, but for the fault of the reconciler. Nobody reads the
// record of a document that is gone, so they show as degraded. One of them stands for all, and stays until it goes on.
type stuckTeardowns struct {
	count atomic.Int64 // of errs, so that others need no lock

	mu    sync.Mutex
	term  *Term // which they are of
	errs  map[string]error
	shown string
}

// noteStuck notes why a teardown does not go on; nil if it does, or there is none.
func (r *RecordedLife) noteStuck(t *Term, key string, err error) {
	s := &r.stuck
	if err == nil && s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	if s.term != t {
		s.term, s.errs = t, map[string]error{}
		context.AfterFunc(t.Ctx, func() { r.forgetStuck(t) })
	}
	if err == nil {
		delete(s.errs, key)
	} else {
		s.errs[key] = err
	}
	s.count.Store(int64(len(s.errs)))
	s.mu.Unlock()
	r.Health.Change(t.Ctx, "teardown", r.oneStuck)
}

// forgetStuck ends a term: another replica goes on.
func (r *RecordedLife) forgetStuck(t *Term) {
	s := &r.stuck
	s.mu.Lock()
	if s.term == t {
		s.term, s.errs = nil, nil
		s.count.Store(0)
	}
	s.mu.Unlock()
	r.Health.Change(t.Ctx, "teardown", r.oneStuck)
}

func (r *RecordedLife) oneStuck() error {
	s := &r.stuck
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.errs[s.shown]; !still {
		for s.shown = range s.errs {
			break
		}
	}
	if err := s.errs[s.shown]; err != nil {
		return fmt.Errorf("the teardown of %s %q, and maybe of others, does not go on: %w",
			r.Teardown.Kind, s.shown, err)
	}
	return nil
}

package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/running"
)

// Load implements shards.Host. The caches have all keys: they are ready once they show what there is of records now.
func (s *sharing) Load(ctx context.Context, _ []int) error {
	now, err := s.records.StreamState(ctx)
	if err != nil {
		return err
	}
	return s.loadUpTo(ctx, now.LastSeq)
}

func (s *sharing) loadUpTo(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	return s.records.Informer().WaitCursor(ctx, last)
}

// loadPatience is after how long it is asked anew what there is: the stream may be another one.
const loadPatience = 10 * time.Second

// Idle implements shards.Host. A reconcile that does not return keeps this replica from being a member again, so Run
// ends: another process has to.
func (s *sharing) Idle() <-chan struct{} {
	idle := s.slots.Idle()
	go s.awaitIdle(idle)
	return idle
}

// awaitIdle tells what has not returned, once the lease of this member is over, and what ends Run.
func (s *sharing) awaitIdle(idle <-chan struct{}) {
	look := time.NewTicker(returnPatience)
	defer look.Stop()
	for began := time.Now(); ; {
		select {
		case <-idle:
			s.health.Set(s.runCtx, running.ProblemEndOfTerm, nil)
			return
		case <-look.C:
		}
		err := running.EndOfTerm(s.name, s.stats.Running.Load() > 0, s.queue.RunningKeys(10))
		if !s.Lasts() { // else it leaves in good order
			s.health.Set(s.runCtx, running.ProblemEndOfTerm, err)
		}
		if s.opts.GracePeriod >= 0 && time.Since(began) >= max(s.opts.GracePeriod, stuckPatience)+stuckPatience {
			select {
			case s.stuck <- err:
			default: // it is told already
			}
			return
		}
	}
}

package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/shards"
)

// Load implements shards.Host. The caches are ready once they have what belongs to the slots, and show what there is of
// records now.
func (s *sharing) Load(ctx context.Context, slots []int) error {
	if err := s.fetch(ctx, slots); err != nil {
		return err
	}
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

// Keep implements shards.Host.
func (s *sharing) Keep(ctx context.Context, needed shards.Set) error {
	return s.keep(ctx, needed, s.slots.inUse)
}

// loadPatience is after how long it is asked anew what there is: the stream may be another one.
const loadPatience = 10 * time.Second

// Idle implements shards.Host. A reconcile that does not return keeps this replica from being a member again, so Run
// ends: another process has to.
func (s *sharing) Idle() <-chan struct{} {
	idle := s.slots.Idle()
	select {
	case <-idle:
	default:
		go s.awaitIdle(idle)
	}
	return idle
}

// awaitIdle tells of what runs although this replica is no member any more, until it has returned or Run ends. When the
// controller stops, that is for Run to say.
func (s *sharing) awaitIdle(idle <-chan struct{}) {
	look := time.NewTicker(returnPatience)
	defer look.Stop()
	for lost, patience := time.Now(), max(s.opts.GracePeriod, stuckPatience)+stuckPatience; ; {
		select {
		case <-idle:
			s.health.Set(s.runCtx, running.ProblemEndOfTerm, nil)
			return
		case <-s.runCtx.Done():
			return
		case <-look.C:
		}
		err := running.EndOfTerm(s.name, s.stats.Running.Load() > 0, s.queue.RunningKeys(10))
		s.health.Set(s.runCtx, running.ProblemEndOfTerm, err)
		if time.Since(lost) < patience || s.opts.GracePeriod < 0 {
			continue
		}
		select {
		case s.stuck <- err:
		default: // it is told already
		}
		return
	}
}

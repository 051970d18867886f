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
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	return s.records.Informer().WaitCursor(ctx, now.LastSeq)
}

// Keep implements shards.Host.
func (s *sharing) Keep(ctx context.Context, needed shards.Set) error { return s.keep(ctx, needed) }

// loadPatience is after how long it is asked anew what there is: the stream may be another one.
const loadPatience = 10 * time.Second

// Idle implements shards.Host. A reconcile that does not return keeps this replica from being a member again, so Run
// ends: another process has to.
func (s *sharing) Idle() <-chan struct{} {
	idle := s.slots.Idle()
	if s.opts.GracePeriod < 0 {
		return idle
	}
	patience := time.NewTimer(max(s.opts.GracePeriod, stuckPatience) + stuckPatience)
	go func() {
		defer patience.Stop()
		select {
		case <-idle:
			return
		case <-patience.C:
		}
		select {
		case s.stuck <- running.EndOfTerm(s.name, s.stats.Running.Load() > 0, s.queue.RunningKeys(10)):
		default: // it is told already
		}
	}()
	return idle
}

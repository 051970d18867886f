package engine

import (
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
)

// Counts are what the engine counts. A count starts at 0 and only grows, but for what runs now and what the last sweep
// found. The zero value is ready.
type Counts struct {
	Reconciles, Failures, Terminals atomic.Uint64
	ReconcileNanos                  atomic.Int64 // nanoseconds in reconciles
	Running                         atomic.Int64
	MapperErrors                    atomic.Uint64
	Malformed, Invalid              atomic.Uint64
	Foreign, Uncovered, Unlisted    atomic.Uint64
	LeftUnproven                    atomic.Uint64
	TornDown, Cascaded, Pruned      atomic.Uint64
	Sweeps                          atomic.Uint64
	Ownerless                       atomic.Pointer[lifecycle.Ownerless] // of the last sweep; nil before the first
	RecordErrors, LeaderErrors      atomic.Uint64
	BrakeEngaged                    atomic.Uint64
	Terms                           atomic.Uint64
	BreakerOpened                   atomic.Uint64
	Loops                           atomic.Uint64
	OwnWriteWaits                   atomic.Uint64
}

// Reconciled counts an attempt.
func (c *Counts) Reconciled(a *lifecycle.Attempt) {
	c.Reconciles.Add(1)
	c.ReconcileNanos.Add(int64(a.Took))
	if a.Err == nil || a.Waits != nil || a.CutShort {
		return // that an API is away, or busy, or that the term was over, is not the key's failure
	}
	c.Failures.Add(1)
	if lifecycle.IsTerminal(a.Err) {
		c.Terminals.Add(1)
	}
}

package engine

import (
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/teardown"
)

// Counts are what the engine counts. The zero value is ready.
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
	Ownerless                       atomic.Pointer[teardown.Ownerless] // of the last sweep; nil before the first
	RecordErrors, LeaderErrors      atomic.Uint64
	BrakeEngaged                    atomic.Uint64
	Terms                           atomic.Uint64
	BreakerOpened                   atomic.Uint64
}

func (c *Counts) reconciled(a *lifecycle.Attempt) {
	c.Reconciles.Add(1)
	c.ReconcileNanos.Add(int64(a.Took))
	if a.Err == nil || a.Waits != nil {
		return // that an API is away, or busy, is not the key's failure
	}
	c.Failures.Add(1)
	if lifecycle.IsTerminal(a.Err) {
		c.Terminals.Add(1)
	}
}

// Counters are those of the engine; they may be read at any time.
func (e *Engine) Counters() *Counts { return &e.stats }

// QueueCounts counts the keys in the queue.
func (e *Engine) QueueCounts() queue.Counts { return e.queue.Counts() }

// KeyCounts counts the keys whose last attempt failed, and those that are parked.
func (e *Engine) KeyCounts() (failing, parked int) { return e.keys.Counts() }

// Leads reports whether this replica works.
func (e *Engine) Leads() bool { return e.leadership.leads.Load() }

// Workers is how many keys are reconciled at once.
func (e *Engine) Workers() int { return e.opts.Workers }

// BrakeState is the state of the brake; zero without teardown.
func (e *Engine) BrakeState() (state brake.State) {
	if e.brake != nil {
		state = e.brake.State()
	}
	return state
}

// Health is what does not work now, sources and buckets, with the reason. Rooms above may report more.
func (e *Engine) Health() *health.Board { return e.health }

// APIStats are those of the sources behind APIs, by kind.
func (e *Engine) APIStats() map[string]apisource.Stats { return e.APIs.Stats() }

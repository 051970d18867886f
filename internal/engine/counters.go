package engine

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Counters are those of the engine; they may be read at any time.
func (e *Engine) Counters() *Counts { return &e.stats }

// QueueCounts counts the keys in the queue.
func (e *Engine) QueueCounts() queue.Counts { return e.queue.Counts() }

// RateWaits counts how many keys had to wait for the rate.
func (e *Engine) RateWaits() uint64 { return e.queue.RateWaits() }

// QueueTotals counts how often a key became due, and how often one was added with a delay.
func (e *Engine) QueueTotals() (adds, delays uint64) { return e.queue.Totals() }

// Remembered is of how many keys something is known that the caches do not have: what is due or delayed, what is
// unusual, and calls of mappers that are made again.
func (e *Engine) Remembered() int { return e.queue.Remembered() + e.keys.Len() + e.mappings.Waiting() }

// Phase tells whether all sources have synced, and whether Run has returned.
func (e *Engine) Phase() (synced, ended bool) { return e.synced.Load(), e.ended.Load() }

// SourceStats tells how the caches of the sources in NATS are doing, by name.
func (e *Engine) SourceStats() map[string]source.Stats { return e.sources.Group().Stats() }

// KeyCounts counts the keys whose last attempt failed, those that are parked, and teardowns that are owed.
func (e *Engine) KeyCounts() (failing, parked, owed int) { return e.keys.Counts() }

// Longest is the reconcile that has run for longest, zero if none runs, and how long all have run together.
func (e *Engine) Longest() (longest running.Run, all time.Duration) { return e.running.Longest() }

// Looping counts the keys that wake themselves.
func (e *Engine) Looping() int { return e.keys.Looping() }

// Leads reports whether this replica works. After a pause of the process the clock tells first that it does not.
func (e *Engine) Leads() bool {
	won := e.leadership.won.Load()
	return e.leadership.leads.Load() && (won == nil || !won.Over())
}

// LeaseLost reports whether the term that began last ended because the lease was not renewed, or was taken.
func (e *Engine) LeaseLost() bool {
	won := e.leadership.won.Load()
	return won != nil && won.Over()
}

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

package engine

import (
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/counts"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/running"
)

// Counters are those of the engine; they may be read at any time.
func (e *Engine) Counters() *counts.Counts { return &e.stats }

// QueueCounts counts the keys in the queue.
func (e *Engine) QueueCounts() queue.Counts { return e.queue.Counts() }

// KeyCounts counts the keys whose last attempt failed, and those that are parked.
func (e *Engine) KeyCounts() (failing, parked int) { return e.keys.Counts() }

// Longest is the reconcile that has run for longest; zero if none runs.
func (e *Engine) Longest() running.Run { return e.running.Longest() }

// Looping counts the keys that wake themselves.
func (e *Engine) Looping() int { return e.keys.Looping() }

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

package controllerruntime

import (
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// counters are what the engine counts. The zero value is ready.
type counters struct {
	reconciles, failures, terminals atomic.Uint64
	seconds                         atomic.Int64 // nanoseconds in reconciles
	running                         atomic.Int64
	mapperErrors                    atomic.Uint64
	malformed, invalid              atomic.Uint64
	foreign, uncovered              atomic.Uint64
	tornDown, cascaded              atomic.Uint64
	sweeps                          atomic.Uint64
	orphaned                        atomic.Int64
	recordErrors, leaderErrors      atomic.Uint64
	brakeEngaged                    atomic.Uint64
	terms                           atomic.Uint64
	breakerOpened                   atomic.Uint64
}

func (c *counters) reconciled(a *attempt) {
	c.reconciles.Add(1)
	c.seconds.Add(int64(a.took))
	if a.err == nil || a.waits != nil {
		return // that an API is away, or busy, is not the key's failure
	}
	c.failures.Add(1)
	if isTerminal(a.err) {
		c.terminals.Add(1)
	}
}

// counters are those of the engine; they may be read at any time.
func (e *engine) counters() *counters { return &e.stats }

// queueCounts counts the keys in the queue.
func (e *engine) queueCounts() queue.Counts { return e.queue.Counts() }

// keyCounts counts the keys whose last attempt failed, and those that are parked.
func (e *engine) keyCounts() (failing, parked int) { return e.keys.Counts() }

// leads reports whether this replica works.
func (e *engine) leads() bool { return e.leadership.leads.Load() }

// workers is how many keys are reconciled at once.
func (e *engine) workers() int { return e.opts.workers }

// brakeState is the state of the brake; zero without teardown.
func (e *engine) brakeState() (state brake.State) {
	if e.brake != nil {
		state = e.brake.State()
	}
	return state
}

// degraded are the sources and buckets that do not work now, with the reason.
func (e *engine) degraded() map[string]error { return e.health.Degraded() }

// apiStats are those of the sources behind APIs, by kind.
func (e *engine) apiStats() map[string]apisource.Stats { return e.apis.Stats() }

package controller

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// Stats are the counts and states of a controller at one moment. Counters only grow, from 0 at New.
type Stats struct {
	// Reconciles counts attempts, Failures those that returned an error or panicked, Terminals those of them that parked
	// their key. ReconcileTime is the sum of their durations.
	Reconciles, Failures, Terminals uint64
	ReconcileTime                   time.Duration
	// Running is the number of attempts under way now, Workers how many there can be.
	Running, Workers int
	// Ready is the number of keys that wait for a worker, by priority from live changes of primaries to background work;
	// Delayed the number of pending delays; OldestReady how long the oldest ready key has waited.
	Ready       [3]int
	Delayed     int
	OldestReady time.Duration
	// Failing is the number of keys whose last attempt failed; Parked those parked by a terminal error.
	Failing, Parked int
	// Leading tells whether this replica works; Terms how often it began to.
	Leading bool
	Terms   uint64
	// Degraded are the sources that do not work now, and the records if they cannot be written, with the reason.
	Degraded map[string]error
	// Brake is the state of the brake, BrakeEngaged how often it engaged.
	Brake        BrakeState
	BrakeEngaged uint64
	// TornDown counts primaries whose teardown was finished, Cascaded secondaries that the runtime deleted for it.
	TornDown, Cascaded uint64
	// Sweeps counts sweeps; Orphaned is how many objects without an owner the last one found.
	Sweeps   uint64
	Orphaned int
	// Foreign counts encounters with objects of another installation that name an owner of this kind.
	Foreign uint64
	// Uncovered counts encounters with objects that a primary owns and a Kubernetes informer does not show, since it is confined
	// to others: when the primary goes, only the process that wrote them knows of them.
	Uncovered uint64
	// Malformed and Invalid count reports of keys of a wrong shape and of documents that do not decode.
	Malformed, Invalid uint64
	// MapperErrors counts failed calls of mappers, RecordErrors failed writes of records, LeaderErrors failed reads from
	// the leader of the primaries' stream, without which nothing is deleted.
	MapperErrors, RecordErrors, LeaderErrors uint64
	// External are the external clients, by kind; BreakerOpened is how often an API of theirs went away.
	External      map[string]ExternalStats
	BreakerOpened uint64
}

// BrakeState tells whether the brake holds deletes back, and why. It is kept as JSON under "_nagi.brake" in the status
// bucket, so that it survives restarts.
type BrakeState struct {
	Engaged bool      `json:"engaged"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries wait for a release, Swept how many owners of orphaned secondaries.
	Held  int `json:"held,omitempty"`
	Swept int `json:"swept,omitempty"`
	// Released stays until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// ExternalStats are the state of an external client.
type ExternalStats struct {
	// Resources is how many the last list showed.
	Resources int
	// Away tells whether the API is away, since when, and why. Waiting is the number of keys that wait for it.
	Away    bool
	Since   time.Time
	Reason  string
	Waiting int
	// TurnedAway is the number of keys that come back for their turn under the rate limit.
	TurnedAway int
}

// statsOf reads the counts and states of an engine.
func statsOf(e *engine.Engine) Stats {
	c, queue := e.Counters(), e.QueueCounts()
	failing, parked := e.KeyCounts()
	s := Stats{
		Reconciles: c.Reconciles.Load(), Failures: c.Failures.Load(), Terminals: c.Terminals.Load(),
		ReconcileTime: time.Duration(c.Seconds.Load()),
		Running:       int(c.Running.Load()), Workers: e.Workers(),
		Delayed: queue.Delayed, OldestReady: queue.Oldest,
		Failing: failing, Parked: parked,
		Leading: e.Leads(), Terms: c.Terms.Load(),
		BrakeEngaged: c.BrakeEngaged.Load(),
		TornDown:     c.TornDown.Load(), Cascaded: c.Cascaded.Load(),
		Sweeps: c.Sweeps.Load(), Orphaned: int(c.Orphaned.Load()), Foreign: c.Foreign.Load(), Uncovered: c.Uncovered.Load(),
		Malformed: c.Malformed.Load(), Invalid: c.Invalid.Load(),
		MapperErrors: c.MapperErrors.Load(), RecordErrors: c.RecordErrors.Load(), LeaderErrors: c.LeaderErrors.Load(),
	}
	for prio, depth := range queue.Ready {
		s.Ready[len(s.Ready)-1-prio] = depth
	}
	s.Brake = BrakeState(e.BrakeState())
	s.Degraded = e.Degraded()
	s.BreakerOpened = c.BreakerOpened.Load()
	for kind, api := range e.APIStats() {
		if s.External == nil {
			s.External = map[string]ExternalStats{}
		}
		s.External[kind] = ExternalStats{
			Resources: api.Resources, Away: api.Away, Since: api.Since, Reason: api.Reason,
			Waiting: api.Waiting, TurnedAway: api.TurnedAway,
		}
	}
	return s
}

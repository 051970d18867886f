package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Stats is the answer to "stats": what package controller says of its Stats, as far as an operator asks for it.
type Stats struct {
	Controller string `json:"controller"`
	Leading    bool   `json:"leading"`
	Synced     bool   `json:"synced"`
	Terms      uint64 `json:"terms"`

	Reconciles       uint64  `json:"reconciles"`
	Failures         uint64  `json:"failures"`
	Terminals        uint64  `json:"terminals"`
	ReconcileSeconds float64 `json:"reconcileSeconds"`

	Workers        int      `json:"workers"`
	Running        int      `json:"running"`
	LongestRunning *Longest `json:"longestRunning,omitempty"`
	// Slowest are the keys whose last reconcile took longest, of those of the last ten minutes that are remembered; the
	// longest first, five at most.
	Slowest []Slow `json:"slowest,omitempty"`
	// ReadyLive, ReadySecondary and ReadyBackground are the keys that wait for a worker, by priority.
	ReadyLive          int     `json:"readyLive"`
	ReadySecondary     int     `json:"readySecondary"`
	ReadyBackground    int     `json:"readyBackground"`
	OldestReadySeconds float64 `json:"oldestReadySeconds"`
	Delayed            int     `json:"delayed"`
	Failing            int     `json:"failing"`
	Parked             int     `json:"parked"`
	Looping            int     `json:"looping"`
	TeardownsOwed      int     `json:"teardownsOwed"`

	TornDown uint64 `json:"tornDown"`
	Cascaded uint64 `json:"cascaded"`
	Pruned   uint64 `json:"pruned"`
	Sweeps   uint64 `json:"sweeps"`
	Orphaned int    `json:"orphaned"`

	// Shards is how replicas share the keys, where they do (controller.WithShards). The counts of reconciles, failures,
	// workers and keys are then those of all of them together, but for what is not in Members: that is of the one that
	// answers, as are the longest and the slowest.
	Shards *Shards `json:"shards,omitempty"`

	// Degraded is what does not work now.
	Degraded []Problem `json:"degraded"`
	Brake    *Brake    `json:"brake,omitempty"`
}

// Shards is how replicas share the keys. See controller.ShardStats.
type Shards struct {
	Slots   int      `json:"slots"`
	Unowned int      `json:"unowned"`
	Moving  int      `json:"moving"`
	Epoch   uint64   `json:"epoch"`
	Refused uint64   `json:"refused"` // of the one that answers
	Members []Member `json:"members"`
}

// Member is a replica that shares the keys with others.
type Member struct {
	Name          string `json:"name"`
	Weight        int    `json:"weight"`
	Slots         int    `json:"slots"`
	Moving        int    `json:"moving,omitempty"`  // of its slots, that another one is to have
	Coming        int    `json:"coming,omitempty"`  // slots that it is to have, and has not
	Leaving       bool   `json:"leaving,omitempty"` // it hands its slots over, and ends
	Leading       bool   `json:"leading,omitempty"` // it holds the ordinary lease
	Workers       int    `json:"workers"`
	Running       int    `json:"running"`
	Ready         int    `json:"ready"`
	Delayed       int    `json:"delayed"`
	Failing       int    `json:"failing"`
	Parked        int    `json:"parked"`
	Looping       int    `json:"looping"`
	TeardownsOwed int    `json:"teardownsOwed"`
	Reconciles    uint64 `json:"reconciles"`
	Failures      uint64 `json:"failures"`
	// Since is when it joined, by its own clock, and LeadingSince since when it holds the lease.
	Since        time.Time `json:"since,omitzero"`
	LeadingSince time.Time `json:"leadingSince,omitzero"`
}

// shared adds what the other members have to the answer of one.
func (s *Stats) shared(of *controller.ShardStats) {
	if of == nil {
		return
	}
	s.Shards = &Shards{
		Slots: of.Slots, Unowned: of.Unowned, Moving: of.Moving, Epoch: of.Epoch, Refused: of.Refused,
		Members: []Member{},
	}
	for _, m := range of.Members {
		s.Shards.Members = append(s.Shards.Members, Member{
			Name: printable.Text(m.Name), Weight: m.Weight, Slots: m.Slots, Moving: m.Moving, Coming: m.Coming,
			Leaving: m.Leaving, Since: m.Since, Leading: m.Leading, LeadingSince: m.LeadingSince,
			Workers: m.Workers, Running: m.Running, Ready: m.Ready, Delayed: m.Delayed, Failing: m.Failing,
			Parked: m.Parked, Looping: m.Looping, TeardownsOwed: m.TeardownsOwed,
			Reconciles: m.Reconciles, Failures: m.Failures,
		})
		if m.Here {
			continue
		}
		s.Workers, s.Running, s.ReadyBackground = s.Workers+m.Workers, s.Running+m.Running, s.ReadyBackground+m.Ready
		s.Delayed, s.Failing, s.Parked = s.Delayed+m.Delayed, s.Failing+m.Failing, s.Parked+m.Parked
		s.Looping, s.TeardownsOwed = s.Looping+m.Looping, s.TeardownsOwed+m.TeardownsOwed
		s.Reconciles, s.Failures = s.Reconciles+m.Reconciles, s.Failures+m.Failures
	}
}

// Longest is the reconcile that has run for longest.
type Longest struct {
	Key     string    `json:"key"`
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
}

// Slow is a key whose last reconcile took long.
type Slow struct {
	Key         string    `json:"key"`
	TookSeconds float64   `json:"tookSeconds"`
	At          time.Time `json:"at"` // when it ended
}

const (
	mostSlow = 5
	slowFor  = 10 * time.Minute
)

// Problem is something that does not work.
type Problem struct {
	What  string    `json:"what"`
	Since time.Time `json:"since,omitzero"`
	Says  string    `json:"says"`
}

func stats(_ context.Context, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	s := r.stats()
	answer := &Stats{
		Controller: r.name(), Leading: s.Leading, Synced: s.Synced, Terms: s.Terms,
		Reconciles: s.Reconciles, Failures: s.Failures, Terminals: s.Terminals,
		ReconcileSeconds: s.ReconcileTime.Seconds(), Workers: s.Workers, Running: s.Running,
		ReadyLive: s.Ready[0], ReadySecondary: s.Ready[1], ReadyBackground: s.Ready[2],
		OldestReadySeconds: s.OldestReady.Seconds(), Delayed: s.Delayed, Failing: s.Failing, Parked: s.Parked,
		Looping: s.Looping, TeardownsOwed: s.TeardownsOwed, TornDown: s.TornDown, Cascaded: s.Cascaded,
		Pruned: s.Pruned, Sweeps: s.Sweeps, Orphaned: s.Orphaned, Degraded: []Problem{},
	}
	answer.shared(s.Shards)
	if l := s.LongestRunning; l.Key != "" {
		answer.LongestRunning = &Longest{Key: printable.Text(l.Key), Since: l.Since, Attempt: l.Attempt}
	}
	for _, slow := range r.engine.Explainer().Running.Slowest(mostSlow, time.Now().Add(-slowFor)) {
		answer.Slowest = append(answer.Slowest, Slow{printable.Text(slow.Key), slow.Took.Seconds(), slow.At})
	}
	if r.hasBrake() == nil {
		answer.Brake = r.brake()
	}
	for _, what := range slices.Sorted(maps.Keys(s.Degraded)) {
		problem := Problem{What: printable.Text(what), Says: printable.Message(s.Degraded[what].Error())}
		if p, ok := s.Degraded[what].(*controller.Problem); ok {
			problem.Since = p.Since
		}
		answer.Degraded = append(answer.Degraded, problem)
	}
	return answer, nil
}

package controller

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// ShardStats is how replicas share the keys, as far as this one knows.
type ShardStats struct {
	// Slots is into how many slots the keys are divided, see WithShards.
	Slots int
	// Member is the name of this replica. It has Held slots, hands Draining of them over, and may begin to work in
	// Open.
	Member               string
	Held, Draining, Open int
	// Members are those whose leases are there, by name.
	Members []ShardMember
	// Unowned is how many slots no member has whose lease is there, and Moving how many another one is to have. Both
	// are 0 when all is calm.
	Unowned, Moving int
	// Epoch is the highest revision at which a slot was given to a member. It grows with each slot that moves, and goes
	// back only with the status bucket: where that was removed, or put back from a backup.
	Epoch uint64
	// RestsUntil is when slots may be taken again after what told of their owners had vanished; zero if they may.
	RestsUntil time.Time
	// Refused counts writes that were refused because their slot had moved to another member.
	Refused uint64
}

// ShardMember is a replica that shares the keys with others. The counts are those that Stats has; of another replica
// they are as it said when it renewed its lease.
type ShardMember struct {
	Name   string
	Weight int // see WithMember
	// Slots is how many slots it has. Another member is to have Moving of them, and it is to have Coming others.
	Slots, Moving, Coming int
	// Since is when it joined, by its own clock. A member that loses its lease joins anew.
	Since   time.Time
	Leaving bool // it hands its slots over, and ends
	Here    bool // it is this replica
	// Leading tells whether it holds the ordinary lease, and so does what is done once for all; LeadingSince is since
	// when.
	Leading      bool
	LeadingSince time.Time

	Workers, Running, Ready, Delayed        int
	Failing, Parked, Looping, TeardownsOwed int
	Reconciles, Failures                    uint64
}

func shardStatsOf(e *engine.ShardStats) *ShardStats {
	if e == nil {
		return nil
	}
	s := &ShardStats{
		Slots: e.Slots, Member: e.Name, Held: e.Held, Draining: e.Draining, Open: e.Open, Unowned: e.Unowned,
		Moving: e.Moving, Epoch: e.Epoch, RestsUntil: e.RestsUntil, Refused: e.Refused,
	}
	for _, m := range e.Members {
		w := e.Work[m.ID]
		one := ShardMember{
			Name: m.Name, Weight: m.Weight, Slots: m.Slots, Moving: m.Moving, Coming: m.Coming,
			Since: m.Since, Leaving: m.Leaving, Here: m.Here,
			Workers: w.Workers, Running: w.Running, Ready: w.Ready, Delayed: w.Delayed,
			Failing: w.Failing, Parked: w.Parked, Looping: w.Looping, TeardownsOwed: w.Owed,
			Reconciles: w.Reconciles, Failures: w.Failures,
		}
		if one.Leading = m.ID == e.Leader; one.Leading {
			one.LeadingSince = e.LeaderSince
		}
		s.Members = append(s.Members, one)
	}
	return s
}

package engine

import (
	"maps"
	"time"

	"github.com/nagi-runtime/nagi/internal/shards"
)

// ShardStats is how replicas share the keys, as far as this one knows.
type ShardStats struct {
	shards.Status
	Name           string                // of this member
	Held, Draining int                   // slots of this member, and those of them that it hands over
	Open           int                   // those in which work may start
	Refused        uint64                // writes that were refused because their slot had moved
	Work           map[string]MemberWork // of each member, by id, as it said last; of this one as it is
	Leader         string                // the id of the one that holds the ordinary lease; "" if that is not known
	LeaderSince    time.Time
}

// MemberWork is how much a member has in hand.
type MemberWork struct {
	Workers    int    `json:"workers"`
	Running    int    `json:"running,omitempty"`
	Ready      int    `json:"ready,omitempty"`
	Delayed    int    `json:"delayed,omitempty"`
	Failing    int    `json:"failing,omitempty"`
	Parked     int    `json:"parked,omitempty"`
	Looping    int    `json:"looping,omitempty"`
	Owed       int    `json:"owed,omitempty"` // teardowns
	Reconciles uint64 `json:"reconciles,omitempty"`
	Failures   uint64 `json:"failures,omitempty"`
}

func (e *Engine) inHandHere() *MemberWork {
	queue := e.queue.Counts()
	w := &MemberWork{
		Workers: e.opts.Workers, Running: int(e.stats.Running.Load()), Delayed: queue.Delayed, Looping: e.Looping(),
		Reconciles: e.stats.Reconciles.Load(), Failures: e.stats.Failures.Load(),
	}
	for _, depth := range queue.Ready {
		w.Ready += depth
	}
	w.Failing, w.Parked, w.Owed = e.KeyCounts()
	return w
}

// ShardStats returns how replicas share the keys; nil if they do not.
func (e *Engine) ShardStats() *ShardStats {
	s := e.sharing
	if s == nil {
		return nil
	}
	now := &ShardStats{Status: s.Status(), Name: e.opts.Member, Open: s.countOpen(), Refused: e.records.FenceRefused()}
	now.Held, now.Draining = s.Held()
	now.Work = map[string]MemberWork{}
	if others := s.works.Load(); others != nil {
		maps.Copy(now.Work, *others)
	}
	if other := s.leader.Load(); other != nil {
		now.Leader, now.LeaderSince = other.id, other.since
	}
	for _, m := range now.Members {
		if !m.Here {
			continue
		}
		now.Work[m.ID] = *e.inHandHere()
		if since := e.leadership.since.Load(); since != nil && e.Leads() {
			now.Leader, now.LeaderSince = m.ID, *since
		}
	}
	return now
}

package registry

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/printable"
)

const (
	// membersLook is how often a publisher looks, in its own memory, who shares the keys.
	membersLook = 5 * time.Second
	// membersSettle is how long others must share the keys before the entry says so. A member that restarts under its
	// name is back by then, mostly, and of a rolling update not each step is written.
	membersSettle = 30 * time.Second
	// mostMembers is how many members an entry names.
	mostMembers = 100
)

// membership notices that others share the keys than before, and are still the same for a while.
type membership struct {
	settled []Member // nil: not known yet in this term
	latest  []Member
	since   time.Time // when latest was seen first
}

// look reports whether now has settled to others than before.
func (m *membership) look(now []Member, at time.Time) bool {
	if m.since.IsZero() || !slices.Equal(now, m.latest) {
		m.latest, m.since = now, at
	}
	if len(now) == 0 || slices.Equal(now, m.settled) || at.Sub(m.since) < membersSettle {
		return false
	}
	m.settled = now
	return true
}

// membersOf are those who share the keys, in the order of their names. Who leaves is none any more.
func membersOf(s *engine.ShardStats) (members []Member) {
	for _, m := range s.Members {
		if !m.Leaving {
			members = append(members, Member{Name: printable.Text(m.Name), Weight: m.Weight})
		}
	}
	return slices.Compact(members) // the lives of one member
}

// sharing is what the controller says of how its replicas share the keys; nil if they do not.
func (p *publisher) sharing() *Shards {
	now := p.engine.ShardStats()
	if now == nil {
		return nil
	}
	return sharedBy(now.Slots, p.members.settled)
}

func sharedBy(slots int, members []Member) *Shards {
	return &Shards{
		Slots: slots, Members: members[:min(len(members), mostMembers)], More: max(0, len(members)-mostMembers),
	}
}

// pause waits about that long, or until others share the keys. It returns false if ctx ends before.
func (p *publisher) pause(ctx context.Context, d time.Duration) bool {
	if !p.engine.Shares() {
		return pause(ctx, d)
	}
	timer, look := time.NewTimer(d/2+rand.N(d)), time.NewTicker(membersLook)
	defer timer.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case at := <-look.C:
			if p.members.look(membersOf(p.engine.ShardStats()), at) {
				return true
			}
		}
	}
}

// keep puts in when what is said of shards became so: now, or what the entry has if that says the same. While the
// members are not known, those of the entry stay.
func (s *Shards) keep(before json.RawMessage, now time.Time) *Shards {
	if s == nil {
		return nil
	}
	said := *s
	said.Since = now.UTC().Truncate(time.Second)
	var old Shards
	if before == nil || json.Unmarshal(before, &old) != nil || old.Slots != s.Slots || old.Since.IsZero() {
		return &said
	}
	if s.Members == nil || slices.Equal(s.Members, old.Members) && s.More == old.More {
		said.Members, said.More, said.Since = old.Members, old.More, old.Since
	}
	return &said
}

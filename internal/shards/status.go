package shards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nuid"
)

// Held is how many slots the member has, and how many of them it hands over.
func (s *Shards) Held() (held, draining int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return 0, 0
	}
	for _, h := range s.life.slots {
		if h.draining {
			draining++
		}
	}
	return len(s.life.slots), draining
}

// ID is that of this life of the member; "" while it is none.
func (s *Shards) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return ""
	}
	return s.life.id
}

// Whose is who has a slot, as far as this member knows.
type Whose struct {
	Member string // its name; "" if no member has the slot whose lease is there
	Next   string // the name of who is to have it, where that is another one
}

// Whose says who has a slot.
func (s *Shards) Whose(slot int) (w Whose) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := s.view.slots[slot].owner
	w.Member = s.view.nameOf(owner, s.Duration)
	if len(s.winners) > 0 && (s.winners[slot] != owner || w.Member == "") {
		w.Next = s.view.nameOf(s.winners[slot], s.Duration)
	}
	return w
}

// nameOf is the name of a member whose lease is there.
func (v *view) nameOf(id string, duration time.Duration) string {
	if !v.live(id, duration) || v.past()[id] {
		return ""
	}
	return v.members[id].Name
}

// Status is how the members share the slots, as far as this one knows.
type Status struct {
	Slots   int
	Members []MemberStatus // by name
	// Unowned are the slots that no member has whose lease is there, and Moving those that another one is to have.
	Unowned, Moving int
	// Epoch is the highest of all epochs: it grows with each slot that moves, and goes back only with the store.
	Epoch uint64
	// RestsUntil is when slots may be taken again whose owners are not known (T4); zero if they may.
	RestsUntil time.Time
}

// MemberStatus is one member.
type MemberStatus struct {
	ID, Name string
	Weight   int
	Slots    int       // that it has
	Moving   int       // those of them that another one is to have
	Coming   int       // that it is to have, and has not
	Since    time.Time // when it joined, by its own clock; zero if that is not known
	Leaving  bool
	Here     bool // it is this one
}

// idOf is an id for a member that joins at a time. Of two lives with one name the older one has the lower id.
func idOf(name string, joins time.Time) string {
	return fmt.Sprintf("%s-%0*d-%s", name, millisDigits, joins.UnixMilli(), nuid.Next())
}

// millisDigits is how many digits an id has of the time, in milliseconds: enough until the year 2286.
const millisDigits = 13

// joinedAt is when the member of an id joined; zero if the id does not say so.
func joinedAt(id, name string) time.Time {
	at, _, _ := strings.Cut(strings.TrimPrefix(id, name+"-"), "-")
	millis, err := strconv.ParseUint(at, 10, 63)
	if err != nil || len(at) != millisDigits {
		return time.Time{}
	}
	return time.UnixMilli(int64(millis)).UTC()
}

// Status says how the slots are shared.
func (s *Shards) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Status{Slots: s.Slots}
	if time.Now().Before(s.restsTo) {
		now.RestsUntil = s.restsTo
	}
	has, gives, gets := map[string]int{}, map[string]int{}, map[string]int{}
	for slot, is := range s.view.slots {
		now.Epoch = max(now.Epoch, is.revision)
		there := s.view.nameOf(is.owner, s.Duration) != ""
		moves := len(s.winners) > 0 && s.winners[slot] != is.owner
		if moves {
			gets[s.winners[slot]]++
		}
		switch {
		case !there:
			now.Unowned++
			continue
		case moves:
			now.Moving++
			gives[is.owner]++
		}
		has[is.owner]++
	}
	for id, m := range s.view.members {
		if s.view.nameOf(id, s.Duration) == "" {
			continue
		}
		now.Members = append(now.Members, MemberStatus{
			ID: id, Name: m.Name, Weight: max(m.Weight, 1), Slots: has[id], Moving: gives[id], Coming: gets[id],
			Since: joinedAt(id, m.Name), Leaving: m.Leaving, Here: s.life != nil && s.life.id == id,
		})
	}
	slices.SortFunc(now.Members, func(a, b MemberStatus) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return now
}

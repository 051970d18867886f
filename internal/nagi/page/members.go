package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// shared is how the replicas of a controller share the keys.
type shared struct {
	Slots, Moving, Unowned int
	Members                []memberRow
	Leads                  *memberRow // who holds the ordinary lease; nil if none says so
}

// memberRow is one of them.
type memberRow struct {
	Name          string
	Weight, Slots int
	Moves         string // what it gives and gets; "" if nothing moves
	Running       string // of its workers
	Ready         int
	NotWell       string // "" if all is well
	Leads, Leaves bool
	LeadsSince    time.Time
	Since         time.Time
}

// sharedOf is what a controller says of its members; nil if it has none.
func sharedOf(s *service.Shards) *shared {
	if s == nil {
		return nil
	}
	all := &shared{Slots: s.Slots, Moving: s.Moving, Unowned: s.Unowned}
	for _, m := range s.Members {
		all.Members = append(all.Members, memberRow{
			Name: printable.Text(m.Name), Weight: m.Weight, Slots: m.Slots,
			Moves:   counted(amount{m.Moving, "gives %d away"}, amount{m.Coming, "gets %d"}),
			Running: fmt.Sprintf("%d of %d", m.Running, m.Workers), Ready: m.Ready,
			NotWell: counted(amount{m.Failing, "%d failing"}, amount{m.Parked, "%d parked"},
				amount{m.Looping, "%d waking themselves"}),
			Leads: m.Leading, LeadsSince: m.LeadingSince, Leaves: m.Leaving, Since: m.Since,
		})
	}
	for i := range all.Members {
		if all.Members[i].Leads {
			all.Leads = &all.Members[i]
		}
	}
	return all
}

// amount is how many of something there are, and how that is said.
type amount struct {
	n    int
	says string
}

// counted says those that are not 0.
func counted(all ...amount) string {
	var says []string
	for _, a := range all {
		if a.n != 0 {
			says = append(says, fmt.Sprintf(a.says, a.n))
		}
	}
	return strings.Join(says, ", ")
}

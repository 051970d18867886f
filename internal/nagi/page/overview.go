package page

import (
	"cmp"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// count is how many keys are in a state, and whether that is as it should be.
type count struct {
	Name  string
	Value int
	Bad   bool
}

// controllerCard is a controller on the overview.
type controllerCard struct {
	Name, Kind string
	Leader     string
	Replicas   int
	Err        string // why it did not answer
	Synced     bool
	Counts     []count
	Plots      []plot
	Degraded   []service.Problem
	Longest    *service.Longest
	Shards     *shared // nil if its replicas do not share the keys
	Asked      time.Time
}

type overview struct {
	Err         string
	Controllers []controllerCard
}

func (p *Page) overview(v *view) error {
	v.Title, v.At = "Controllers", "overview"
	all, err := p.history.snapshot()
	o := overview{}
	if err != nil {
		o.Err = printable.Message(err.Error())
	}
	for i := range all {
		o.Controllers = append(o.Controllers, cardOf(&all[i], v.Now))
	}
	v.Parts = append(v.Parts, part{"controllers", "controllers", o})
	return nil
}

func cardOf(c *controllerHistory, now time.Time) controllerCard {
	card := controllerCard{
		Name: printable.Text(c.name), Kind: printable.Text(c.kind), Replicas: c.replicas,
		Leader: printable.Text(cmp.Or(c.about.Leader, "–")), Asked: c.last().at,
		Plots: []plot{
			newPlot("Reconciles", "/s", c.rate(func(s *sample) float64 { return float64(s.stats.Reconciles) }), now),
			newPlot("Errors", "/s", c.rate(func(s *sample) float64 {
				return float64(s.stats.Failures + s.stats.Terminals)
			}), now),
			newPlot("Due", "", c.gauge(func(s *sample) float64 { return float64(due(s.stats)) }), now),
			newPlot("Oldest due", " s", c.gauge(func(s *sample) float64 { return s.stats.OldestReadySeconds }), now),
		},
	}
	if c.err != nil {
		card.Err = printable.Message(c.err.Error())
	}
	s := c.last().stats
	if s == nil {
		return card
	}
	card.Synced, card.Shards = s.Synced, sharedOf(s.Shards)
	if s.LongestRunning != nil {
		longest := *s.LongestRunning
		longest.Key = printable.Text(c.kind + "/" + longest.Key)
		card.Longest = &longest
	}
	card.Counts = []count{
		{"due", due(s), false}, {"running", s.Running, false}, {"delayed", s.Delayed, false},
		{"failing", s.Failing, s.Failing > 0}, {"parked", s.Parked, s.Parked > 0},
		{"waking themselves", s.Looping, s.Looping > 0}, {"teardowns owed", s.TeardownsOwed, false},
		{"orphans", s.Orphaned, s.Orphaned > 0},
	}
	for _, problem := range s.Degraded {
		problem.What, problem.Says = printable.Text(problem.What), printable.Message(problem.Says)
		card.Degraded = append(card.Degraded, problem)
	}
	return card
}

// due is how many keys wait for a worker.
func due(s *service.Stats) int { return s.ReadyLive + s.ReadySecondary + s.ReadyBackground }

package controller

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// vanish takes documents away so that no event says it: nobody deleted them.
func (w *world) vanish(sites ...int) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	for _, i := range sites {
		must(w.t, stream.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV.sites."+siteName(i))))
	}
}

// TestAReleaseBeginsTheWindowAnew: what went before the release, and what the release let go, does not count against
// the few that vanish after it.
func TestAReleaseBeginsTheWindowAnew(t *testing.T) {
	t.Parallel()
	m := newWorld(t).filled()
	m.vanish(0, 1, 2, 3, 4, 5, 6, 7, 8)
	eventually(t, "nine are torn down", func() bool { return count(t, m.pages) == many-9 })
	m.vanish(9, 10)
	eventually(t, "the brake holds", func() bool { return m.c.Stats().Brake.Engaged })
	must(t, m.c.ReleaseBrake(t.Context()))
	eventually(t, "all eleven are torn down", func() bool { return count(t, m.pages) == many-11 })
	m.vanish(11, 12)
	eventually(t, "two more are torn down", func() bool {
		return count(t, m.pages) == many-13 || m.c.Stats().BrakeEngaged > 1
	})
	if n := m.c.Stats().BrakeEngaged; n != 1 {
		t.Errorf("the brake engaged %d times, want once: %+v", n, m.c.Stats().Brake)
	}
}

// TestTheBrakeDecidesThoughAKeyIsAskedForAgainAndAgain: it waits until no more suspects come, but never for long.
func TestTheBrakeDecidesThoughAKeyIsAskedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	m := newWorld(t).filled()
	m.vanish(0)
	eventually(t, "it is torn down", func() bool {
		m.c.Enqueue(siteName(0), OperationSecondary) // sooner than the brake takes it for quiet
		return m.c.Stats().TornDown > 0
	})
	if n := m.c.Stats().BrakeEngaged; n != 0 {
		t.Errorf("the brake engaged %d times", n)
	}
}

package controller

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestExactlyHalfIsNoMassDelete, though it is ten: the brake is for more than half. One more is.
func TestExactlyHalfIsNoMassDelete(t *testing.T) {
	t.Parallel()
	// A lease that outlasts a stall of the machine: another term would decide anew about what has not gone yet.
	m := newWorld(t).filled(slowRenewal)
	stream, err := m.js.Stream(t.Context(), "KV_sites")
	must(t, err)
	vanish := func(i int) {
		t.Helper()
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites."+siteName(i))))
	}
	for i := range many / 2 {
		vanish(i)
	}
	eventually(t, "half are torn down", func() bool {
		return count(t, m.pages) == many-many/2 || m.c.Stats().Brake.Engaged
	})
	if s := m.c.Stats(); s.BrakeEngaged != 0 || s.TornDown > many/2 {
		t.Fatalf("the brake engaged %d times (%+v), %d torn down; want none and half", s.BrakeEngaged, s.Brake,
			s.TornDown)
	}
	vanish(many / 2)
	eventually(t, "the brake holds the next", func() bool {
		s := m.c.Stats().Brake
		return s.Engaged && s.Held == 1
	})
	if n := count(t, m.pages); n != many-many/2 {
		t.Errorf("%d pages are left, want half", n)
	}
}

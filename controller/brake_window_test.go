package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// vanishing removes documents without a trace: their deletes are inferred.
func (w *world) vanishing(from, to int) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	for i := from; i < to; i++ {
		must(w.t, stream.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV.sites."+siteName(i))))
	}
}

// TestTheBrakeCountsWhatIsStillBeingTornDown among the gone and not among the known.
func TestTheBrakeCountsWhatIsStillBeingTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", quickCompare)
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{RequeueAfter: 20 * time.Millisecond}, nil // never finished
			}
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		w.make(sites, many)
		w.settled(c, sites, many)
		w.vanishing(0, brake.Least-1)
		eventually(t, "nine are being torn down", func() bool { return c.Stats().Reconciles >= many+2*brake.Least })
		w.vanishing(brake.Least, brake.Least+3)
		eventually(t, "the brake holds the rest", func() bool { return c.Stats().Brake.Engaged })
	})
}

// TestTheBrakesWindowSlides: what went before it does not count any more.
func TestTheBrakesWindowSlides(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const window = time.Second
		m := newWorld(t).filled(WithBrakeWindow(window))
		m.vanishing(0, brake.Least-1)
		eventually(t, "nine are torn down", func() bool { return count(t, m.pages) == many-brake.Least+1 })
		since := time.Now()
		eventually(t, "the window has passed", func() bool { return time.Since(since) > window+100*time.Millisecond })
		m.vanishing(brake.Least, brake.Least+5)
		eventually(t, "five more are torn down", func() bool { return count(t, m.pages) == many-brake.Least+1-5 })
		if n := m.c.Stats().BrakeEngaged; n != 0 {
			t.Errorf("the brake engaged %d times", n)
		}
	})
}

// TestTheSweepsOfAWindowCountTogether: nine orphans of nineteen are few, and nine more are too many.
func TestTheSweepsOfAWindowCountTogether(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), Owns(pages), WithResyncInterval(100*time.Millisecond),
			WithWorkers(4))
		must(t, err)
		for i := range brake.Least - 1 {
			were(t, sites, fmt.Sprint("first-", i), fmt.Sprint("second-", i))
		}
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 })
		add := func(name, owner string) {
			p := newSite(name, "")
			c.SetOwner(p, owner)
			must(t, pages.Create(ctx, p))
		}
		for i := range 10 {
			add(fmt.Sprint("home-", i), "home")
		}
		for i := range brake.Least - 1 { // an owner for each: what a sweep lets go is an owner, with all that comes yet
			add(fmt.Sprint("first-", i), fmt.Sprint("first-", i))
		}
		eventually(t, "the first are swept", func() bool { return count(t, pages) == 10 })
		if c.Stats().BrakeEngaged != 0 {
			t.Fatalf("the brake engaged: %+v", c.Stats().Brake)
		}
		sweeps := c.Stats().Sweeps
		eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps > sweeps+2 })
		for i := range brake.Least - 1 {
			add(fmt.Sprint("second-", i), fmt.Sprint("second-", i))
		}
		// A sweep may have come when there was one: with the first, that is not more than half.
		eventually(t, "the brake holds the second", func() bool { return c.Stats().Brake.Swept >= brake.Least-2 })
		if n := count(t, pages); n < 10+brake.Least-2 {
			t.Errorf("%d pages are left", n)
		}
		must(t, c.ReleaseBrake(ctx))
		eventually(t, "they are swept after the release", func() bool { return count(t, pages) == 10 })
	})
}

// TestWhatIsHeldStaysHeldWhenOthersCome although, looked at afresh after a restart, it would be few among many.
func TestWhatIsHeldStaysHeldWhenOthersCome(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		m.emptied("sites")
		m.holds(many)
		for i := range 3 * many {
			must(t, m.sites.Create(t.Context(), newSite(siteName(100+i), "")))
		}
		eventually(t, "the new ones are reconciled", func() bool { return count(t, m.pages) == 4*many })
		m = m.restarted(func() {})
		eventually(t, "the brake holds", func() bool {
			s := m.c.Stats()
			return s.Brake.Engaged && s.Brake.Held == many && s.Reconciles >= 3*many
		})
		if n := count(t, m.pages); n != 4*many {
			t.Errorf("%d pages, want %d", n, 4*many)
		}
	})
}

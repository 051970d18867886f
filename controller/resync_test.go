package controller

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestResyncLeavesOutWhatIsGoneAndTakesUpWhatIsNew: a key has its turn at the same time of each interval.
func TestResyncLeavesOutWhatIsGoneAndTakesUpWhatIsNew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const interval = time.Second
		var seen calls
		last := map[string]time.Time{} // turn of a key
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if at := last[req.Key]; req.Operations.Has(OperationResync) {
				if passed := time.Since(at); !at.IsZero() && passed != interval {
					t.Errorf("%s: %v from one turn to the next", req.Key, passed)
				}
				last[req.Key] = time.Now()
			}
			return Result{}, nil
		}), WithResyncInterval(interval))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("old", "one")))
		natstest.Eventually(t, "the old one has turns", func() bool { return seen.with("old", OperationResync) >= 2 })
		must(t, sites.Delete(t.Context(), "old"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		must(t, sites.Create(t.Context(), newSite("new", "one")))
		n := seen.count("old")
		natstest.Eventually(t, "the new one has turns", func() bool { return seen.with("new", OperationResync) >= 3 })
		if seen.count("old") != n {
			t.Errorf("the deleted one had %d more", seen.count("old")-n)
		}
	})
}

func TestResyncIntervalOfZeroIsNever(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the sweep at the start, and the reconcile", func() bool {
			return c.Stats().Sweeps == 1 && seen.count("home") == 1
		})
		for range 10 {
			c.Enqueue("home", OperationManual)
			time.Sleep(time.Minute)
		}
		r.halt() // it stops although nothing is ever due
		if n := seen.with("home", OperationResync); n != 0 || c.Stats().Sweeps != 1 {
			t.Errorf("%d turns and %d sweeps, want none and the one at the start", n, c.Stats().Sweeps)
		}
	})
}

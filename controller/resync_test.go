package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce, by a hash of its key: at the same time of each interval.
func TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const keys, intervals = 100, 3
		const interval = 100 * time.Second
		for i := range keys {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("site-%03d", i), "one")))
		}
		var mu sync.Mutex
		turns := map[string][]time.Time{}
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationResync) {
				mu.Lock()
				defer mu.Unlock()
				turns[req.Key] = append(turns[req.Key], time.Now())
			}
			return Result{}, nil
		}), WithResyncInterval(interval), WithWorkers(4))
		must(t, err)
		started := time.Now()
		w.run(c)
		time.Sleep(intervals*interval - time.Since(started))
		mu.Lock()
		defer mu.Unlock()
		if len(turns) != keys {
			t.Fatalf("%d of %d keys had a turn", len(turns), keys)
		}
		for key, at := range turns {
			if len(at) != intervals {
				t.Fatalf("%s had %d turns in %d intervals", key, len(at), intervals)
			}
			for n := range intervals - 1 {
				if passed := at[n+1].Sub(at[n]); passed != interval {
					t.Errorf("%s: %v from one turn to the next", key, passed)
				}
			}
		}
		for n := range intervals {
			begin := started.Add(time.Duration(n) * interval)
			for tenth := range 10 {
				past := 0
				for _, at := range turns {
					if at[n].Before(begin.Add(time.Duration(tenth) * interval / 10)) {
						past++
					}
				}
				if want := keys * tenth / 10; past < want-3*keys/20 || past > want+keys/10 {
					t.Errorf("interval %d: %d keys had their turn within %d tenths, want about %d", n, past, tenth, want)
				}
			}
		}
	})
}

func TestResyncLeavesOutWhatIsGoneAndTakesUpWhatIsNew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(50*time.Millisecond))
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

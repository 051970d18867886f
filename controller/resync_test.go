package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce holds what no stall of the machine can break: each key has
// a turn in each interval, and none comes early. That none comes late either, internal/resync shows in a bubble.
func TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const keys, intervals = 100, 3
		const interval = 3 * time.Second
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
		// The sweep after the last interval begins the next.
		eventually(t, "the intervals have passed", func() bool { return c.Stats().Sweeps == intervals+1 })
		idle(t, c) // the last keys of the interval may still be due
		mu.Lock()
		defer mu.Unlock()
		if len(turns) != keys {
			t.Fatalf("%d of %d keys had a turn", len(turns), keys)
		}
		for key, at := range turns {
			if begun := int(c.Stats().Sweeps); len(at) < intervals || len(at) > begun {
				t.Fatalf("%s had %d turns, %d intervals are over and %d have begun", key, len(at), intervals, begun)
			}
		}
		for n := range intervals {
			// Interval n begins n intervals after the start or later, so a tenth of it may have its tenth of the keys.
			begin := started.Add(time.Duration(n) * interval)
			for tenth := range 10 {
				early := 0
				for _, at := range turns {
					if at[n].Before(begin.Add(time.Duration(tenth) * interval / 10)) {
						early++
					}
				}
				if most := keys * tenth / 10; early > most+keys/10 {
					t.Errorf("interval %d: %d keys had their turn within %d tenths, want about %d", n, early, tenth, most)
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
		eventually(t, "the old one has turns", func() bool { return seen.with("old", OperationResync) >= 2 })
		must(t, sites.Delete(t.Context(), "old"))
		eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		must(t, sites.Create(t.Context(), newSite("new", "one")))
		n := seen.count("old")
		eventually(t, "the new one has turns", func() bool { return seen.with("new", OperationResync) >= 3 })
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
		eventually(t, "the sweep at the start, and the reconcile", func() bool {
			return c.Stats().Sweeps == 1 && seen.count("home") == 1
		})
		deadline := time.After(300 * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case <-deadline:
				waiting = false
			default:
				c.Enqueue("home", OperationManual)
				idle(t, c)
			}
		}
		r.halt() // it stops although nothing is ever due
		if n := seen.with("home", OperationResync); n != 0 || c.Stats().Sweeps != 1 {
			t.Errorf("%d turns and %d sweeps, want none and the one at the start", n, c.Stats().Sweeps)
		}
	})
}

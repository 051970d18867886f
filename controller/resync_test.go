package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce looks at whole intervals behind the first, in which the
// keys are still reconciled for the first time: between two turns of one key there is about an interval, and the turns
// of all keys are spread over it.
func TestResyncTouchesEachPrimaryOncePerIntervalAndNotAllAtOnce(t *testing.T) {
	t.Parallel()
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
	w.run(c)
	// The sweep after the last interval begins the next.
	eventually(t, "the intervals have passed", func() bool { return c.Stats().Sweeps == intervals+1 })
	idle(t, c) // the last keys of the interval may still be due
	mu.Lock()
	defer mu.Unlock()
	if len(turns) != keys {
		t.Fatalf("%d of %d keys had a turn", len(turns), keys)
	}
	var first time.Time
	for key, at := range turns {
		if begun := int(c.Stats().Sweeps); len(at) < intervals || len(at) > begun {
			t.Fatalf("%s had %d turns, %d intervals are over and %d have begun", key, len(at), intervals, begun)
		}
		if first.IsZero() || at[1].Before(first) {
			first = at[1]
		}
	}
	var inSlot [10]int
	for key, at := range turns {
		slot := int(at[1].Sub(first) * 10 / interval)
		inSlot[min(slot, 9)]++
		// In every interval a key has the same turn. Half an interval is for a machine that is busy.
		if between := at[2].Sub(at[1]); between < interval/2 || between > interval*3/2 {
			t.Errorf("%s: %v between two turns, want about %v", key, between, interval)
		}
	}
	if most := slices.Max(inSlot[:]); most > 3*keys/10 {
		t.Errorf("a tenth of the interval had %d of %d keys: %v", most, keys, inSlot)
	}
}

func TestResyncLeavesOutWhatIsGoneAndTakesUpWhatIsNew(t *testing.T) {
	t.Parallel()
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
}

func TestResyncIntervalOfZeroIsNever(t *testing.T) {
	t.Parallel()
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
}

package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestStatsAreRightAfterManyOperations(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const keys = 5000
		var attempts, failures, terminals, ran atomic.Uint64
		var slept atomic.Int64
		c, err := New("sites", w.sites(), ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			ran.Add(1)
			switch n := attempts.Add(1) % 10; {
			case n < 2:
				failures.Add(1)
				return Result{}, errUnwell
			case n == 2:
				failures.Add(1)
				terminals.Add(1)
				return Result{}, TerminalError(errHopeless)
			case n == 3:
				failures.Add(1)
				panic("tick tack")
			case n == 4:
				return Result{RequeueAfter: time.Microsecond}, nil
			case n == 5:
				slept.Add(int64(time.Millisecond))
				time.Sleep(time.Millisecond)
			}
			return Result{}, nil
		}), WithoutTeardown(), WithWorkers(8), WithBackoff(time.Microsecond, time.Millisecond))
		must(t, err)
		w.run(logging{c, logr.Discard()}) // it fails very often, on purpose
		var askers sync.WaitGroup
		for asker := range 4 {
			askers.Go(func() {
				for n := range 20_000 * soak() {
					key := fmt.Sprint("site-", (n+asker)%keys)
					if n%3 == 0 {
						c.EnqueueAfter(key, OperationManual, time.Microsecond)
					} else {
						c.Enqueue(key, Operation(n%10))
					}
				}
			})
		}
		askers.Wait()
		idle(t, c)
		s := c.Stats()
		if s.Reconciles != ran.Load() || s.Failures != failures.Load() || s.Terminals != terminals.Load() {
			t.Errorf("counted %d reconciles, %d failures, %d terminals; there were %d, %d, %d",
				s.Reconciles, s.Failures, s.Terminals, ran.Load(), failures.Load(), terminals.Load())
		}
		if s.Running != 0 || s.Ready != [3]int{} || s.Delayed != 0 || s.OldestReady != 0 || s.Failing != 0 ||
			s.Workers != 8 || s.ReconcileTime != time.Duration(slept.Load()) || s.Parked > keys {
			t.Errorf("at rest: %+v", s)
		}
		if parked := s.Parked; s.Remembered != parked {
			t.Errorf("something is remembered of %d keys, and %d are parked", s.Remembered, parked)
		}
		t.Logf("%d reconciles of %d requests", s.Reconciles, 80_000*soak())
	})
}

func TestStatsTellWhatRunsAndWhatWaits(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g, WithoutTeardown(), shortGrace())
		must(t, err)
		if s := c.Stats(); s.Leading || s.Reconciles != 0 || s.Terms != 0 {
			t.Errorf("before Run: %+v", s)
		}
		for n := range 3 {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprint("old-", n), "one")))
		}
		w.run(c)
		g.enter(t)
		c.Enqueue("new", OperationManual)
		c.EnqueueAfter("newer", OperationManual, time.Hour)
		must(t, sites.Create(t.Context(), newSite("live", "one")))
		synctest.Wait()
		time.Sleep(time.Second)
		if s := c.Stats(); s.Ready != [3]int{2, 0, 2} || s.Running != 1 || s.Delayed != 1 || s.OldestReady != time.Second ||
			!s.Leading || s.Terms != 1 {
			t.Errorf("while one runs: %+v", s)
		}
		g.leave <- errUnwell
		g.enter(t)
		if s := c.Stats(); s.Failing != 1 || s.Failures != 1 {
			t.Errorf("%d failing, %d failures; want one", s.Failing, s.Failures)
		}
		g.leave <- nil
	})
}

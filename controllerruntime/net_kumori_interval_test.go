package controllerruntime

import (
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriIntervalZeroMeansNever: garbage is collected once, after the first sync, and no primary is resynced. The
// test also fails if zero means the default interval: site-30552 has its turn at the very beginning of every
// interval.
func TestKumoriIntervalZeroMeansNever(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite(firstInTurn, "")))
		var collected atomic.Int32
		c := kumori{sites: sites}.collecting(func(*collecting) { collected.Add(1) })
		r := runKumori(t, c)
		natstest.Eventually(t, "the first time", func() bool { return collected.Load() >= 1 })
		w.make(sites, 5*many) // it works for a while, in which it could have collected more than once
		natstest.Eventually(t, "all are reconciled", func() bool {
			return c.seen.count(siteName(5*many-1)) > 0 && c.seen.count(firstInTurn) > 0
		})
		r.halt()
		if n := collected.Load(); n != 1 {
			t.Errorf("GarbageSecondaries was called %d times, want once", n)
		}
		if ops := c.seen.of(firstInTurn); c.seen.with(firstInTurn, controller.OperationResync) > 0 {
			t.Errorf("the site was reconciled because of a resync: %v", ops)
		}
	})
}

// firstInTurn is a key whose turn is in the first ten-thousandth of every resync interval.
const firstInTurn = "site-30552"

// TestKumoriGarbageSecondariesByOthersDoesNothing: only while the runtime itself calls it, it looks for garbage. At any
// other time the runtime may not lead, or may still be reading.
func TestKumoriGarbageSecondariesByOthersDoesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := kumori{sites: w.sites()}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "garbage was collected", func() bool { return c.Stats().Sweeps == 1 })
		must(t, w.sites().Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it works", func() bool { return c.seen.count("home") > 0 })
		natstest.Eventually(t, "the runtime's own call is over", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.sweep == nil
		})
		c.GarbageSecondaries()
		if n := c.Stats().Sweeps; n != 1 {
			t.Errorf("%d sweeps, want the runtime's own one", n)
		}
	})
}

package controllerruntime

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriGarbageSecondariesThatBlocksHoldsUpNothing: primaries are resynced all the same, the replica says what
// stands still, Run returns, and tells that it left the override behind.
func TestKumoriGarbageSecondariesThatBlocksHoldsUpNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var calls atomic.Int32
		release, returned := make(chan struct{}), make(chan struct{})
		c := kumori{sites: sites, resync: 50 * time.Millisecond}.collecting(func(c *collecting) {
			if calls.Add(1) == 1 {
				<-release
				c.kumoriRuntime.GarbageSecondaries() // too late: nobody may sweep any more
				close(returned)
			}
		})
		c.patience = 50 * time.Millisecond
		stop, done, errs := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(done)
			c.Run(2, stop, errs)
		}()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is resynced", func() bool {
			return c.seen.with("home", controller.OperationResync) >= 3
		})
		natstest.Eventually(t, "it is reported", func() bool {
			problem, ok := c.Stats().Degraded["GarbageSecondaries"]
			return ok && strings.Contains(problem.Error(), "has not returned")
		})
		sweeps := c.Stats().Sweeps
		close(stop)
		within(t, "Run returns after the stop", done)
		if err := <-errs; !strings.Contains(err.Error(), "GarbageSecondaries") {
			t.Errorf("error %q does not say what was left behind", err)
		}
		close(release)
		within(t, "the override returns", returned)
		if n := calls.Load(); n != 1 || c.Stats().Sweeps != sweeps {
			t.Errorf("it was called %d times while it ran, and swept %d times after the stop", n, c.Stats().Sweeps-sweeps)
		}
	})
}

// TestKumoriGarbageSecondariesThatWasSlowIsCalledAgain, and is not reported any more.
func TestKumoriGarbageSecondariesThatWasSlowIsCalledAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var calls atomic.Int32
		release := make(chan struct{})
		c := kumori{sites: w.sites(), resync: 20 * time.Millisecond}.collecting(func(*collecting) {
			if calls.Add(1) == 1 {
				<-release
			}
		})
		runKumori(t, c)
		degraded := func() bool { return c.Stats().Degraded["GarbageSecondaries"] != nil }
		natstest.Eventually(t, "it is reported", degraded)
		close(release)
		natstest.Eventually(t, "and then not", func() bool { return !degraded() && calls.Load() > 2 })
	})
}

// TestKumoriRunWaitsForAGarbageSecondariesThatReturns, so that Clean comes after it.
func TestKumoriRunWaitsForAGarbageSecondariesThatReturns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		entered := make(chan struct{})
		var ended atomic.Bool
		stopped := make(chan struct{})
		c := kumori{sites: w.sites()}.collecting(func(*collecting) {
			close(entered)
			<-stopped
			time.Sleep(10 * time.Millisecond) // longer than the end of Run takes
			ended.Store(true)
		})
		r := runKumori(t, c)
		<-entered
		r.stop()
		close(stopped)
		r.halt() // fails the test if an error was sent
		if !ended.Load() {
			t.Error("Run returned before the override")
		}
	})
}

package metrics_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/test/cloudtest"
)

// TestATeardownIsOwedUntilItsEnd, also by the controller that takes over, which has not seen the delete.
func TestATeardownIsOwedUntilItsEnd(t *testing.T) {
	w := newWorld(t)
	m := metrics.New()
	var mended atomic.Bool
	begin := func() (c *controller.Controller[*site], stop func()) {
		sites := w.client("Site", "sites")
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(_ context.Context, req controller.Request) (controller.Result, error) {
				if req.Operations.Has(controller.OperationDelete) && !mended.Load() {
					return controller.Result{}, errors.New("not yet")
				}
				return controller.Result{}, nil
			}), m.Controller(), controller.WithBackoff(time.Millisecond, 20*time.Millisecond))
		w.must(err)
		return c, w.run(c)
	}
	owed := func(n string) func() bool {
		return func() bool {
			s := scrape(t, m.Handler())
			return s.has(`nagi_teardowns_owed{controller="sites"} `+n) &&
				s.has(`nagi_keys{controller="sites",state="teardown"} `+n)
		}
	}
	c, stop := begin()
	sites := w.client("Site", "sites")
	w.create(sites, "home", "shop")
	w.eventually("both were reconciled", func() bool { return c.Stats().Reconciles == 2 })
	w.eventually("nothing is owed", owed("0"))
	w.must(sites.Delete(t.Context(), "home"))
	w.eventually("one is owed", owed("1"))
	stop()
	if owed("0")() || owed("1")() {
		t.Error("who has ended says what it owes")
	}
	begin()
	w.eventually("who took over does", owed("1"))
	mended.Store(true)
	w.eventually("it is over", owed("0"))
	w.eventually("it is counted", func() bool {
		return scrape(t, m.Handler()).has(`nagi_torn_down_total{controller="sites"} 1`)
	})
}

// TestAnExternalAPIThatIsAwayIsShown, and that it came back.
func TestAnExternalAPIThatIsAwayIsShown(t *testing.T) {
	w := newWorld(t)
	m := metrics.New()
	api := cloudtest.NewListed()
	const soon = 10 * time.Millisecond
	quick := external.Config{Interval: soon, BackoffMin: soon, BackoffMax: 2 * soon}
	c, err := controller.New("sites", w.client("Site", "sites"), controller.ReconcilerFunc(outcomes), m.Controller(),
		controller.OwnsExternal(external.Configure(api, quick)))
	w.must(err)
	w.run(c)
	shows := func(series string) func() bool { return func() bool { return scrape(t, m.Handler()).has(series) } }
	w.eventually("it answers", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 1`))
	away := external.Unavailable(errors.New("away"))
	api.Fails.Store(&away)
	w.eventually("it is away", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 0`))
	w.eventually("the source is degraded", shows(`nagi_degraded{controller="sites",source="OwnsExternal Thing"} 1`))
	api.Fails.Store(nil)
	w.eventually("it came back", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 1`))
}

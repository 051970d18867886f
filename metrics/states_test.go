package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestATeardownIsOwedUntilItsEnd, also by the controller that takes over, which has not seen the delete.
func TestATeardownIsOwedUntilItsEnd(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		natstest.Eventually(w, "both were reconciled", func() bool { return c.Stats().Reconciles == 2 })
		natstest.Eventually(w, "nothing is owed", owed("0"))
		w.must(sites.Delete(t.Context(), "home"))
		natstest.Eventually(w, "one is owed", owed("1"))
		stop()
		if owed("0")() || owed("1")() {
			t.Error("who has ended says what it owes")
		}
		begin()
		natstest.Eventually(w, "who took over does", owed("1"))
		mended.Store(true)
		natstest.Eventually(w, "it is over", owed("0"))
		natstest.Eventually(w, "it is counted", func() bool {
			return scrape(t, m.Handler()).has(`nagi_torn_down_total{controller="sites"} 1`)
		})
	})
}

// TestAnExternalAPIThatIsAwayIsShown, and that it came back.
func TestAnExternalAPIThatIsAwayIsShown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		natstest.Eventually(w, "it answers", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 1`))
		away := external.Unavailable(errors.New("away"))
		api.Fails.Store(&away)
		natstest.Eventually(w, "it is away", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 0`))
		natstest.Eventually(w, "the source is degraded", shows(`nagi_degraded{controller="sites",source="OwnsExternal Thing"} 1`))
		api.Fails.Store(nil)
		natstest.Eventually(w, "it came back", shows(`nagi_external_api_available{controller="sites",kind="Thing"} 1`))
	})
}

// TestOfTwoControllersOfOneNameTheOneThatHasNotSyncedCounts: else the alert about it could not fire.
func TestOfTwoControllersOfOneNameTheOneThatHasNotSyncedCounts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		create := func() *controller.Controller[*site] {
			c, err := controller.New("sites", w.client("Site", "sites"), controller.ReconcilerFunc(outcomes), m.Controller())
			w.must(err)
			return c
		}
		first, second := create(), create()
		w.run(first)
		natstest.Eventually(w, "one has synced", func() bool { return first.Stats().Synced })
		scrape(t, m.Handler()).want(t, `nagi_synced{controller="sites"} 0`)
		w.run(second)
		natstest.Eventually(w, "both have", func() bool { return scrape(t, m.Handler()).has(`nagi_synced{controller="sites"} 1`) })
	})
}

// TestAReconcileThatTookTooLongIsCountedWhateverItReturns, as controller-runtime does.
func TestAReconcileThatTookTooLongIsCountedWhateverItReturns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		sites := w.client("Site", "sites")
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				<-ctx.Done()
				if req.Key == "fails" {
					return controller.Result{}, controller.TerminalError(ctx.Err())
				}
				return controller.Result{}, nil
			}), m.Controller(), controller.WithReconcileTimeout(10*time.Millisecond))
		w.must(err)
		w.run(c)
		w.create(sites, "works", "fails")
		natstest.Eventually(w, "both were reconciled", func() bool { return c.Stats().Reconciles == 2 })
		scrape(t, m.Handler()).want(t,
			`controller_runtime_reconcile_timeouts_total{controller="sites"} 2`,
			`controller_runtime_reconcile_total{controller="sites",result="success"} 1`,
			`controller_runtime_reconcile_total{controller="sites",result="error"} 1`)
	})
}

// TestAReconcileThatAStopCutsShortIsNoError: the next leader reconciles the key again.
func TestAReconcileThatAStopCutsShortIsNoError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		sites := w.client("Site", "sites")
		begun := make(chan struct{})
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(ctx context.Context, _ controller.Request) (controller.Result, error) {
				close(begun)
				<-ctx.Done()
				return controller.Result{}, controller.TerminalError(ctx.Err())
			}), m.Controller(), controller.WithGracePeriod(time.Second))
		w.must(err)
		stop := w.run(c)
		w.create(sites, "home")
		<-begun
		var shown scraped
		ended := make(chan struct{})
		go func() { defer close(ended); stop() }()
		natstest.Eventually(w, "it has ended", func() bool {
			shown = scrape(t, m.Handler())
			return shown.has(`controller_runtime_reconcile_total{controller="sites",result="requeue"} 1`)
		})
		shown.want(t,
			`controller_runtime_reconcile_total{controller="sites",result="error"} 0`,
			`controller_runtime_reconcile_errors_total{controller="sites"} 0`,
			`controller_runtime_terminal_reconcile_errors_total{controller="sites"} 0`)
		<-ended
	})
}

// TestAnotherStreamIsCountedOnce, though the next controller of the name shares the cache that noticed it.
func TestAnotherStreamIsCountedOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := metrics.New()
		sites := w.client("Site", "sites")
		stopCache, err := sites.Start()
		w.must(err)
		defer stopCache()
		begin := func() (c *controller.Controller[*site], stop func()) {
			c, err := controller.New("sites", sites, controller.ReconcilerFunc(outcomes), m.Controller())
			w.must(err)
			stop = w.run(c)
			natstest.Eventually(w, "it leads", func() bool { return c.Stats().Leading })
			return c, stop
		}
		lists := func(reason string, n int) string {
			return fmt.Sprintf(`nagi_source_lists_total{controller="sites",reason=%q,source="primary Site (bucket sites)"} %d`,
				reason, n)
		}
		_, stop := begin()
		stream, err := w.js.Stream(t.Context(), "KV_sites")
		w.must(err)
		cfg := stream.CachedInfo().Config
		w.must(w.js.DeleteStream(t.Context(), "KV_sites"))
		_, err = w.js.CreateStream(t.Context(), cfg)
		w.must(err)
		natstest.Eventually(w, "it is noticed", func() bool { return scrape(t, m.Handler()).has(lists("stream_changed", 1)) })
		stop()
		c, _ := begin()
		scrape(t, m.Handler()).want(t, lists("stream_changed", 1), lists("first", 2), lists("doubt", 0))
		w.must(w.js.DeleteStream(t.Context(), "KV_sites"))
		_, err = w.js.CreateStream(t.Context(), cfg)
		w.must(err)
		natstest.Eventually(w, "the next one is counted", func() bool {
			return scrape(t, m.Handler()).has(lists("stream_changed", 2))
		})
		if n := c.Stats().Sources["primary Site (bucket sites)"].StreamChanges; n != 1 {
			t.Errorf("the second controller counts %d other streams since it began", n)
		}
	})
}

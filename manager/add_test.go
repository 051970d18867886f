package manager

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// ran is a manager that runs, with nothing but a runnable called rest.
func ran(t *testing.T, cfg Config) (*Manager, *run) {
	t.Helper()
	isolated(t)
	if cfg.URL == "" {
		cfg.URL = startServer(t).URL()
	}
	m := open(t, cfg)
	rest, started := blocking("rest")
	must(t, m.Add(rest))
	r := start(t, m)
	<-started
	return m, r
}

// reconciling makes a controller that tells what it reconciles.
func reconciling(
	t *testing.T, name string, c *entity.Client[*site], opts ...controller.Option,
) (*controller.Controller[*site], <-chan string) {
	t.Helper()
	keys := make(chan string, 100)
	ctl, err := controller.New(name, c, controller.ReconcilerFunc(
		func(_ context.Context, req controller.Request) (controller.Result, error) {
			keys <- req.Key
			return controller.Result{}, nil
		}), opts...)
	must(t, err)
	return ctl, keys
}

func TestAControllerThatIsAddedWhileRunRunsReconciles(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		c := client(t, m, sites())
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		ctl, keys := reconciling(t, "sites", c)
		must(t, m.Add(ctl))
		if key := <-keys; key != "home" {
			t.Error(key)
		}
		must(t, c.Create(t.Context(), newSite("shop", "Shop")))
		if key := <-keys; key != "shop" {
			t.Error(key)
		}
		must(t, r.stop())
		if !ctl.Stats().Ended {
			t.Error("it goes on after Run")
		}
	})
}

// TestTheCachesOfWhatIsAddedAreFilledBefore, and those only that are new.
func TestTheCachesOfWhatIsAddedAreFilledBefore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{CacheSyncTimeout: time.Hour})
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		missing := client(t, m, sites())
		must(t, m.JetStream().DeleteStream(t.Context(), "KV_sites"))
		seen := make(chan bool, 1)
		must(t, m.Add(Func("first", func(ctx context.Context) error {
			seen <- pages.Informer().HasSynced() && missing.Informer().HasSynced()
			return nil
		})))
		time.Sleep(time.Minute)
		mustSay(t, m.Synced(), `"sites"`)
		if err := m.Synced(); strings.Contains(err.Error(), `"pages"`) {
			t.Error(err)
		}
		if len(seen) > 0 {
			t.Fatal("it was started")
		}
		_, err := entity.NewClient[*site](t.Context(), m.JetStream(), sites()) // makes the bucket
		must(t, err)
		if !<-seen {
			t.Error("it was started with empty caches")
		}
		must(t, m.Synced())
		informer := pages.Informer()
		second, started := blocking("second")
		must(t, m.Add(second))
		<-started
		if pages.Informer() != informer || informer.Status().Lists != 1 {
			t.Errorf("a cache was filled again: %+v", informer.Status())
		}
		must(t, r.stop())
	})
}

// TestWhatIsAddedWhileCachesFillStartsWithTheOthers.
func TestWhatIsAddedWhileCachesFillStartsWithTheOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r, rest := starting(t)
		added, started := blocking("added")
		removed, never := blocking("removed")
		must(t, m.Add(added, removed))
		must(t, m.Remove(t.Context(), removed))
		time.Sleep(time.Minute)
		select {
		case <-started:
			t.Error("it was started before the caches were filled")
		default:
		}
		_, err := entity.NewClient[*site](t.Context(), m.JetStream(), sites()) // makes the bucket
		must(t, err)
		<-started
		<-rest
		select {
		case <-never:
			t.Error("what was removed was started")
		default:
		}
		must(t, r.stop())
	})
}

// TestWhatIsAddedIsUnderTheLeaseOfTheProcess: where that leads it does at once, where it stands by it waits.
func TestWhatIsAddedIsUnderTheLeaseOfTheProcess(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		first := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the first leads", first.leadsAll)
		second := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the second stands by", func() bool { return second.stats[0]().Synced })
		late := func(p *replica) *controller.Controller[*site] {
			t.Helper()
			c, _ := reconciling(t, "late", client(t, p.m, entity.Config{Kind: "Late", Bucket: "late"}),
				controller.WithLeaseTiming(longLease().Timing))
			must(t, p.m.Add(c))
			return c
		}
		// The one that stands by is the first to have it, so that nothing but the lease of the process holds it back.
		waits := late(second)
		natstest.Eventually(t, "it is warm", func() bool { return waits.Stats().Synced })
		time.Sleep(time.Minute)
		if waits.Stats().Leading {
			t.Error("it leads in a process that stands by")
		}
		terms := first.terms()
		leads := late(first)
		natstest.Eventually(t, "it leads", func() bool { return leads.Stats().Leading })
		if got := first.terms(); got != terms || !first.leadsAll() {
			t.Errorf("the others have had %d terms after %d", got, terms)
		}
		kv, err := first.m.JetStream().KeyValue(t.Context(), "leases")
		must(t, err)
		names := func() []string {
			entry, err := kv.Get(t.Context(), "fleet")
			must(t, err)
			var record struct{ Controllers []string }
			must(t, json.Unmarshal(entry.Value(), &record))
			return record.Controllers
		}
		natstest.Eventually(t, "the lease names it", func() bool { return slices.Contains(names(), "late") })
		natstest.Eventually(t, "nothing is degraded", func() bool { return len(waits.Stats().Degraded) == 0 })

		must(t, first.m.Remove(t.Context(), leads))
		natstest.Eventually(t, "the lease does not name it", func() bool { return !slices.Contains(names(), "late") })
		if !first.leadsAll() || first.terms() != terms {
			t.Error("the others do not lead any more")
		}
		must(t, first.stop())
		natstest.Eventually(t, "the second leads", func() bool { return second.leadsAll() && waits.Stats().Leading })
		must(t, second.stop())
	})
}

func TestAFailureOfWhatWasAddedStopsAllAndIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		fails := Func("late", func(context.Context) error { return errBroken })
		must(t, m.Add(fails))
		err := r.wait()
		mustSay(t, err, "manager: late: broken")
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if err := m.Remove(t.Context(), fails); !errors.Is(err, errBroken) {
			t.Errorf("removed later: %v", err)
		}

		m, r = ran(t, Config{CacheSyncTimeout: 5 * time.Second})
		client(t, m, sites())
		must(t, m.JetStream().DeleteStream(t.Context(), "KV_sites"))
		late, started := blocking("late")
		must(t, m.Add(late))
		mustSay(t, r.wait(), "cache of Site", "Config.CacheSyncTimeout")
		select {
		case <-started:
			t.Error("it was started without its cache")
		default:
		}
		must(t, m.Remove(t.Context(), late))
	})
}

func TestNothingIsAddedWhileRunStops(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		runs, stopping, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
		must(t, m.Add(Func("slow", func(ctx context.Context) error {
			close(runs)
			<-ctx.Done()
			close(stopping)
			<-release
			return nil
		})))
		<-runs
		r.cancel()
		<-stopping
		late, started := blocking("late")
		time.Sleep(time.Second)
		mustSay(t, m.Add(late), "Add while Run is stopping")
		mustSay(t, m.Close(t.Context()), "Close while Run runs")
		close(release)
		must(t, r.wait())
		mustSay(t, m.Add(late), "Add after Run")
		select {
		case <-started:
			t.Error("it was started")
		default:
		}
	})
}

// TestANameIsFreeAgainWhenItsRunnableIsDoneOrRemoved, and not before.
func TestANameIsFreeAgainWhenItsRunnableIsDoneOrRemoved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		first, started := blocking("job")
		must(t, m.Add(first))
		<-started
		other := Func("job", func(context.Context) error { return nil })
		mustSay(t, m.Add(first), `"job" was added before`)
		mustSay(t, m.Add(other), `two with the name "job"`)
		mustSay(t, m.Add(Func("new", other.Run), nil), "number 2 is nil")
		must(t, m.Remove(t.Context(), first))
		must(t, m.Add(other))
		natstest.Eventually(t, "the other is done, and what ran once runs again", func() bool {
			return m.Add(Func("job", other.Run)) == nil
		})
		must(t, m.Add(Func("new", other.Run))) // nothing of the call that failed was added

		release := make(chan struct{})
		slow := Func("slow", func(context.Context) error { <-release; return nil })
		must(t, m.Add(slow))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustSay(t, m.Remove(ctx, slow), "slow goes on, and is being removed", "deadline")
		mustSay(t, m.Add(Func("slow", other.Run)), `"slow" is being removed`)
		close(release)
		must(t, m.Remove(t.Context(), slow))
		must(t, m.Add(Func("slow", other.Run)))
		must(t, r.stop())
	})
}

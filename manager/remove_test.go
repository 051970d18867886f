package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
)

// consumers is how many the server has on the buckets of a client.
func consumers(t *testing.T, js jetstream.JetStream, of entity.Config) (n int) {
	t.Helper()
	for _, bucket := range []string{of.Bucket, of.WithDefaults().StatusBucket} {
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		must(t, err)
		n += stream.CachedInfo().State.Consumers
	}
	return n
}

// listed are the controllers that the service of a process lists.
func listed(t *testing.T, nc *nats.Conn) (names []string) {
	t.Helper()
	msg, err := nc.RequestWithContext(t.Context(), "$SRV.INFO.nagi", nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	must(t, err)
	var info micro.Info
	must(t, json.Unmarshal(msg.Data, &info))
	for _, e := range info.Endpoints {
		names = append(names, e.Metadata["controller"])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestWhatIsRemovedLeavesNothing: goroutines, consumers, rows. And another controller may take its place.
func TestWhatIsRemovedLeavesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		m := open(t, Config{URL: s.URL(), Service: service.For(service.Config{}), Lease: longLease()})
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		stays, _ := reconciling(t, "pages", pages, m.Controller())
		must(t, m.Add(stays))
		r := start(t, m)
		nc, js := natstest.Connect(t, s.URL())
		natstest.Eventually(t, "it leads, and is listed", func() bool {
			return stays.Stats().Leading && slices.Equal(listed(t, nc), []string{"pages"})
		})
		shown, probe := metrics.New(), probes.New()
		c := client(t, m, sites())
		time.Sleep(time.Minute)
		before, left := runtime.NumGoroutine(), consumers(t, js, pages.Config())
		for round := range 3 {
			if round == 2 {
				c = client(t, m, sites())
			}
			ctl, keys := reconciling(t, "sites", c, m.Controller(), shown.Controller())
			probe.Add("sites", ctl)
			must(t, m.Add(ctl))
			key := fmt.Sprint("home", round)
			must(t, c.Create(t.Context(), newSite(key, "Home")))
			natstest.Eventually(t, "it reconciles", func() bool { return <-keys == key })
			natstest.Eventually(t, "it is listed", func() bool {
				return slices.Equal(listed(t, nc), []string{"pages", "sites"})
			})
			if n := consumers(t, js, sites()); n == 0 {
				t.Error("it has no consumers: what is counted here is nothing")
			}
			needs, err := m.Permissions()
			must(t, err)
			if !strings.Contains(needs.NATS(), "KV_sites") {
				t.Error("what is added needs no permissions")
			}
			probe.Remove("sites")
			must(t, m.Remove(t.Context(), ctl))

			if n := consumers(t, js, sites()); n != 0 {
				t.Errorf("round %d: %d consumers are left", round, n)
			}
			if needs, err = m.Permissions(); err != nil || strings.Contains(needs.NATS(), "KV_sites") {
				t.Errorf("round %d: permissions are left, or %v", round, err)
			}
			if m.Synced() != nil || !probe.Alive().OK || !probe.Ready().OK {
				t.Errorf("round %d: not well: %v, %v, %v", round, m.Synced(), probe.Alive(), probe.Ready())
			}
			natstest.Eventually(t, "it is not listed", func() bool {
				return slices.Equal(listed(t, nc), []string{"pages"})
			})
			_, err = nc.RequestWithContext(t.Context(), "nagi.sites.read.about", nil)
			if !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("round %d: it is answered for: %v", round, err)
			}
			if gauges := gaugesOf(t, shown, "sites"); len(gauges) > 0 {
				t.Errorf("round %d: gauges are left: %q", round, gauges)
			}
			time.Sleep(time.Minute)
			if n := runtime.NumGoroutine(); n > before {
				stacks := make([]byte, 1<<20)
				t.Fatalf("round %d: %d goroutines, and %d before:\n%s", round, n, before,
					stacks[:runtime.Stack(stacks, true)])
			}
		}
		if n := consumers(t, js, pages.Config()); n != left || !stays.Stats().Leading {
			t.Errorf("of what stays there are %d consumers, and were %d", n, left)
		}
		if site, err := c.Lister().Get("home0"); err != nil || site.Name != "home0" {
			t.Errorf("a lister that is read all the same: %v", err)
		}
		must(t, r.stop())
	})
}

// TestWhatIsRemovedWhileItsCachesFillIsNotStarted, and the caches that were filled for it alone are left.
func TestWhatIsRemovedWhileItsCachesFillIsNotStarted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{CacheSyncTimeout: time.Hour})
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		client(t, m, sites())
		must(t, m.JetStream().DeleteStream(t.Context(), "KV_sites"))
		added, started := blocking("added")
		must(t, m.Add(added))
		natstest.Eventually(t, "one cache is filled", pages.Informer().HasSynced)
		time.Sleep(time.Minute)
		mustSay(t, m.Synced(), `"sites"`)
		must(t, m.Remove(t.Context(), added))
		must(t, m.Synced())
		if n := consumers(t, m.JetStream(), pages.Config()); n != 0 {
			t.Errorf("%d consumers are left", n)
		}
		second, secondStarted := blocking("second")
		must(t, m.Add(second))
		<-secondStarted
		select {
		case <-started:
			t.Error("it was started")
		default:
		}
		must(t, r.stop())
	})
}

// TestACacheIsNotEndedWhileItIsFilled for what was added, whoever used it before and whatever is removed meanwhile.
func TestACacheIsNotEndedWhileItIsFilled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{CacheSyncTimeout: 10 * time.Minute})
		one, _ := reconciling(t, "one", client(t, m, sites()))
		must(t, m.Add(one))
		natstest.Eventually(t, "one leads", func() bool { return one.Stats().Leading })
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		stream, err := m.JetStream().Stream(t.Context(), "KV_pages")
		must(t, err)
		must(t, m.JetStream().DeleteStream(t.Context(), "KV_pages"))
		s, err := one.AddSource(t.Context(), controller.Watches(pages,
			func(context.Context, *site) ([]string, error) { return nil, nil }))
		must(t, err)
		two, _ := reconciling(t, "two", pages)
		other, _ := blocking("other")
		must(t, m.Add(two, other))
		time.Sleep(time.Minute)
		must(t, s.Remove(t.Context()))
		must(t, m.Remove(t.Context(), other))
		_, err = m.JetStream().CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
		natstest.Eventually(t, "two leads", func() bool { return two.Stats().Leading })
		must(t, r.stop())
	})
}

// TestACacheThatAnotherControllerUsesStays, and one that no controller ever used.
func TestACacheThatAnotherControllerUsesStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		shared, read := client(t, m, sites()), client(t, m, entity.Config{Kind: "Read", Bucket: "read"})
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		watches := controller.Watches(shared, func(context.Context, *site) ([]string, error) { return nil, nil })
		one, _ := reconciling(t, "one", shared)
		two, _ := reconciling(t, "two", pages, watches)
		must(t, m.Add(one, two))
		r := start(t, m)
		natstest.Eventually(t, "both lead", func() bool { return one.Stats().Leading && two.Stats().Leading })
		sharedCache, readCache := shared.Informer(), read.Informer()
		must(t, m.Remove(t.Context(), one))
		if sharedCache.IsStopped() || !two.Stats().Leading {
			t.Error("the cache that another controller uses was stopped")
		}
		must(t, m.Remove(t.Context(), two))
		if !sharedCache.IsStopped() || consumers(t, m.JetStream(), sites()) != 0 {
			t.Error("the cache goes on without a user")
		}
		if readCache.IsStopped() || !readCache.HasSynced() {
			t.Error("the cache was stopped that something else may read")
		}
		must(t, r.stop())
	})
}

// gaugesOf are the metrics of a controller that say what is.
func gaugesOf(t *testing.T, m *metrics.Metrics, name string) (gauges []string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	must(t, registry.Register(m))
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetType().String() != "GAUGE" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == name {
					gauges = append(gauges, family.GetName())
				}
			}
		}
	}
	return gauges
}

// TestWhatIsRemovedStopsAlone, and its running reconcile ends with a live context.
func TestWhatIsRemovedStopsAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		pages := client(t, m, entity.Config{Kind: "Page", Bucket: "pages"})
		other, otherKeys := reconciling(t, "pages", pages)
		c := client(t, m, sites())
		begins, how := make(chan struct{}), make(chan error, 1)
		const takes = 10 * time.Second
		ctl, err := controller.New("sites", c, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				if req.Key != "home" {
					return controller.Result{}, nil
				}
				close(begins)
				time.Sleep(takes)
				how <- errors.Join(ctx.Err(), c.Patch(ctx, "shop", []byte(`{"spec":{"title":"it writes"}}`)))
				return controller.Result{}, nil
			}))
		must(t, err)
		must(t, c.Create(t.Context(), newSite("shop", "Shop")))
		must(t, m.Add(other, ctl))
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		<-begins
		began := time.Now()
		must(t, m.Remove(t.Context(), ctl))
		if took := time.Since(began); took < takes-time.Second || took > takes+2*time.Second {
			t.Errorf("it took %v, and the reconcile %v", took, takes)
		}
		must(t, <-how)
		if !ctl.Stats().Ended || other.Stats().Ended {
			t.Error("another one was removed")
		}
		must(t, pages.Create(t.Context(), newSite("page", "")))
		if key := <-otherKeys; key != "page" {
			t.Error(key)
		}
		must(t, r.stop())
	})
}

// TestTheGracePeriodHoldsForWhatIsRemoved: the context of a reconcile ends after four fifths of it.
func TestTheGracePeriodHoldsForWhatIsRemoved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{GracePeriod: 10 * time.Second})
		c := client(t, m, sites())
		begins, took := make(chan time.Time, 1), make(chan time.Duration, 1)
		ctl, err := controller.New("sites", c, controller.ReconcilerFunc(
			func(ctx context.Context, _ controller.Request) (controller.Result, error) {
				begins <- time.Now()
				<-ctx.Done()
				took <- time.Since(<-begins)
				return controller.Result{}, nil
			}), controller.WithGracePeriod(time.Hour))
		must(t, err)
		must(t, m.Add(ctl))
		must(t, c.Create(t.Context(), newSite("home", "Home")))
		<-begins
		begins <- time.Now()
		must(t, m.Remove(t.Context(), ctl))
		if took := <-took; took != 8*time.Second {
			t.Errorf("its context ended after %v", took)
		}
		must(t, r.stop())
	})
}

func TestTheFailureOfWhatIsRemovedIsThatOfRemoveAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		release := make(chan struct{})
		fails := Func("fails", func(ctx context.Context) error { <-ctx.Done(); <-release; return errBroken })
		panics := Func("panics", func(ctx context.Context) error { <-ctx.Done(); panic("ouch") })
		ends := Func("ends", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		must(t, m.Add(fails, panics, ends))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustSay(t, m.Remove(ctx, fails), "fails goes on")
		close(release)
		time.Sleep(time.Second) // no caller waits when it returns
		err := m.Remove(t.Context(), fails)
		mustSay(t, err, "manager: fails: broken")
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		mustSay(t, m.Remove(t.Context(), panics), "panics: panic: ouch")
		must(t, m.Remove(t.Context(), ends))
		must(t, r.stop())
	})
}

// TestTheManagerGoesOnWhenTheLastOneWasRemoved, for more may be added; its context ends it.
func TestTheManagerGoesOnWhenTheLastOneWasRemoved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		rest, started := blocking("rest")
		must(t, m.Add(rest))
		r := start(t, m)
		<-started
		must(t, m.Remove(t.Context(), rest))
		time.Sleep(time.Hour)
		done := make(chan struct{})
		must(t, m.Add(Func("job", func(context.Context) error { close(done); return nil })))
		<-done
		time.Sleep(time.Hour)
		select {
		case <-r.done:
			t.Fatalf("Run has returned %v", r.err)
		default:
		}
		must(t, r.stop())
	})
}

func TestWhatMayBeRemoved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		rest, started := blocking("rest")
		never, neverStarted := blocking("never")
		ran := make(chan struct{})
		job := Func("job", func(context.Context) error { close(ran); return nil })
		mustSay(t, m.Remove(t.Context(), nil), "nil was not added")
		mustSay(t, m.Remove(t.Context(), never), `"never" was not added`)
		must(t, m.Add(rest, never, job))
		must(t, m.Remove(t.Context(), never))
		mustSay(t, m.Remove(t.Context(), never), "removed before")
		must(t, m.Add(never))
		must(t, m.Remove(t.Context(), never))
		r := start(t, m)
		<-started
		<-ran
		time.Sleep(time.Second)
		must(t, m.Remove(t.Context(), job)) // it is done
		mustSay(t, m.Remove(t.Context(), job), `"job" was not added, or was removed before`)
		mustSay(t, m.Remove(t.Context(), never), "was not added")
		must(t, r.stop())
		must(t, m.Remove(t.Context(), rest))
		select {
		case <-neverStarted:
			t.Error("what was removed before Run was started")
		default:
		}
	})
}

// TestAServiceForgetsWhatIsRemovedBeforeRun: another controller may have its name.
func TestAServiceForgetsWhatIsRemovedBeforeRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: natstest.Start(t).URL(), Service: service.For(service.Config{})})
		c := siteController(t, m, m.Controller())
		must(t, m.Add(c))
		must(t, m.Remove(t.Context(), c))
		must(t, m.Add(siteController(t, m, m.Controller())))
	})
}

// TestManyAddAndRemoveAtOnce: what was added ran, what was removed has ended, and Run goes on.
func TestManyAddAndRemoveAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, r := ran(t, Config{})
		ended := make(chan error, 2)
		for i := range 2 {
			c := client(t, m, entity.Config{Kind: fmt.Sprint("Kind", i), Bucket: fmt.Sprint("bucket", i)})
			go func() {
				var errs []error
				for round := range 5 {
					ctl, keys := reconciling(t, fmt.Sprint("controller", i), c)
					errs = append(errs, m.Add(ctl), c.Create(t.Context(), newSite(fmt.Sprint("key", round), "")))
					for <-keys != fmt.Sprint("key", round) {
					}
					errs = append(errs, m.Remove(t.Context(), ctl))
					if !ctl.Stats().Ended {
						errs = append(errs, errors.New("it goes on"))
					}
				}
				ended <- errors.Join(errs...)
			}()
		}
		must(t, <-ended)
		must(t, <-ended)
		must(t, r.stop())
	})
}

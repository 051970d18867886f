package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// manySites creates sites s0, s1, … with disks of size 1.
func (w *cloudWorld) manySites(n int) {
	w.t.Helper()
	for i := range n {
		must(w.t, w.sites.Create(w.t.Context(), sized(fmt.Sprintf("s%d", i), 1)))
	}
}

func TestAnAPIThatIsAwayPunishesNoPrimaryAndIsPolledOnceForAll(t *testing.T) {
	for name, hangUp := range map[string]bool{"answers 503": false, "hangs up": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newCloudWorld(t, withInterval(notInATest), nil, WithWorkers(4))
				w.run(w.c)
				natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
				w.cloud.GoAway(hangUp)
				const sites = 50
				w.manySites(sites)
				natstest.Eventually(t, "all wait", func() bool { return w.c.Stats().External["Disk"].Waiting == sites })
				finds, polls, start := w.cloud.Called("GET find"), w.cloud.Called("GET disks"), time.Now()
				natstest.Eventually(t, "it is polled", func() bool { return w.cloud.Called("GET disks") > polls+5 })
				s := w.c.Stats()
				if s.Failures != 0 || s.Failing != 0 || s.Delayed != 0 {
					t.Errorf("%d failures, %d keys failing, %d delays: the primaries are punished", s.Failures, s.Failing,
						s.Delayed)
				}
				if n := w.cloud.Called("GET find"); n != finds || n > 8 {
					t.Errorf("%d calls for %d sites, %d of them while the breaker was open", n, sites, n-finds)
				}
				n, most := w.cloud.Called("GET disks")-polls, int(2+time.Since(start)/quick.BackoffMin)
				if n > most {
					t.Errorf("%d polls, want at most %d", n, most)
				}
				if s.Degraded["OwnsExternal Disk"] == nil || !s.External["Disk"].Away || s.External["Disk"].Reason == "" ||
					s.BreakerOpened == 0 {
					t.Errorf("health does not say so: %+v, %v", s.External["Disk"], s.Degraded)
				}
				w.cloud.ComeBack()
				natstest.Eventually(t, "all have their disks", func() bool {
					return w.cloud.Count() == sites && w.c.Stats().External["Disk"].Waiting == 0
				})
				for i := range sites {
					key := fmt.Sprintf("s%d", i)
					natstest.Eventually(t, key+" is reconciled", func() bool { return w.reconciled(key) })
					ops := w.seen.of(key)
					if last := ops[len(ops)-1]; w.seen.with(key, OperationRetry) == 0 || !ops[0].Has(OperationPut) {
						t.Errorf("%s: operations %v, the last %v; want Put given back with Retry", key, ops, last)
					}
					if n := w.cloud.CreatedFor(key); n != 1 {
						t.Errorf("%s: %d disks were created", key, n)
					}
				}
				natstest.Eventually(t, "health says so", func() bool {
					return w.c.Stats().Degraded["OwnsExternal Disk"] == nil
				})
			})
		})
	}
}

func TestTheConditionOfAWaitingKeySaysWhatItWaitsFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil)
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Status = http.StatusInternalServerError })
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it fails on its own", func() bool {
			return strings.Contains(w.condition("home", entity.ReasonRetrying), "500")
		})
		w.cloud.GoAway(false)
		natstest.Eventually(t, "its condition says that it waits for the API", func() bool {
			return strings.HasPrefix(w.condition("home", entity.ReasonRetrying), "waits for the API of Disk")
		})
		w.cloud.ComeBack()
		natstest.Eventually(t, "it is reconciled", func() bool { return w.reconciled("home") })
	})
}

func TestATeardownWaitsForTheAPIAndNothingIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("home") })
		w.cloud.GoAway(false)
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown waits", func() bool { return w.c.Stats().External["Disk"].Waiting == 1 })
		if s := w.c.Stats(); s.Failures != 0 || s.TornDown != 0 {
			t.Errorf("%d failures, %d torn down", s.Failures, s.TornDown)
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "all is gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
		last := w.seen.of("home")
		if !last[len(last)-1].Has(OperationDelete) {
			t.Errorf("the last reconcile had %v, want Delete", last[len(last)-1])
		}
	})
}

func TestACascadeWaitsForTheAPIToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it leads", func() bool { return w.seen.count("home") > 0 })
		w.cloud.Add(w.diskFor("home", ""))
		natstest.Eventually(t, "the disk is known", func() bool { return w.c.Stats().External["Disk"].Resources == 1 })
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Fault = func(call string, _ *http.Request) int {
				if call == "DELETE disks" {
					return http.StatusServiceUnavailable
				}
				return 0
			}
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete opens the breaker", func() bool { return w.c.Stats().BreakerOpened > 0 })
		if w.gone("home") {
			t.Error("forgotten before the disk was deleted")
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Fault = nil })
		natstest.Eventually(t, "all is gone", func() bool { return w.cloud.Count() == 0 && w.gone("home") })
	})
}

// TestACascadeTriesAgainWhatFailedElsewhere: that an API is away holds up the delete of nothing that is not behind it.
func TestACascadeTriesAgainWhatFailedElsewhere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages, things := w.sites(), &hooked{Client: w.pages()}, cloudtest.NewListed()
		var deletes atomic.Int64
		pages.onDelete = func(_ string, remove func() error) error {
			if deletes.Add(1) == 1 {
				return errors.New("as the test wishes")
			}
			return remove()
		}
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages), OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), siteWithPages("home", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		things.Resources.Store(&[]external.Resource{{ID: "one", OwnerKey: "home", Version: "1"}})
		natstest.Eventually(t, "the thing is known", func() bool { return c.Stats().External["Thing"].Resources == 1 })
		away := errors.New("away")
		things.Fails.Store(&away)
		natstest.Eventually(t, "its API is away", func() bool { return c.Stats().External["Thing"].Away })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the page is gone", func() bool { return !exists(t, pages.Client, "home-0") })
		natstest.Eventually(t, "the teardown waits for the thing", func() bool {
			return c.Stats().External["Thing"].Waiting == 1
		})
		things.Fails.Store(nil)
		natstest.Eventually(t, "all is gone", func() bool { return c.Stats().TornDown == 1 })
	})
}

// TestWhatFailedElsewhereIsTriedAgainWhileAnAPIIsAway, with backoff; and the key waits once the API is all that is
// missing.
func TestWhatFailedElsewhereIsTriedAgainWhileAnAPIIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, things := w.sites(), cloudtest.NewListed()
		away := errors.New("away")
		var seen calls
		var mended atomic.Bool
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			err := external.Unavailable(away)
			if !mended.Load() {
				err = fmt.Errorf("both: %w", errors.Join(err, errors.New("as the test wishes")))
			}
			return Result{}, err
		}), OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "others are spared the API", func() bool { return c.Stats().BreakerOpened > 0 })
		things.Fails.Store(&away)
		natstest.Eventually(t, "it is away", func() bool { return c.Stats().External["Thing"].Away })
		tried := seen.count("home")
		natstest.Eventually(t, "it is tried again and again", func() bool { return seen.count("home") >= tried+3 })
		if n := c.Stats().External["Thing"].Waiting; n != 0 {
			t.Errorf("%d keys wait", n)
		}
		mended.Store(true)
		natstest.Eventually(t, "it waits", func() bool { return c.Stats().External["Thing"].Waiting == 1 })
	})
}

func TestAStopOfAWaitingControllerLosesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil)
		r := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("old", 1)))
		natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("old") })
		w.cloud.GoAway(true)
		must(t, w.sites.Create(t.Context(), sized("new", 1)))
		must(t, w.sites.Delete(t.Context(), "old"))
		natstest.Eventually(t, "both wait", func() bool { return w.c.Stats().External["Disk"].Waiting == 2 })
		r.halt()
		w.cloud.ComeBack()
		w.controller(nil)
		w.run(w.c)
		natstest.Eventually(t, "what waited is done by the next", func() bool {
			return w.cloud.Of("new") == "=1" && w.cloud.Of("old") == "" && w.reconciled("new") && w.gone("old")
		})
	})
}

func TestAnAPIThatFailsAgainAtOnceIsNotStormed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		// Lists succeed, creations do not: after each poll one key tries, and the others stay.
		config := withInterval(notInATest)
		config.Timeout = time.Minute
		w := newCloudWorld(t, config, nil, WithWorkers(4))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		const sites = 20
		var tries atomic.Int64
		three, allWait := make(chan struct{}), make(chan struct{})
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Fault = func(call string, _ *http.Request) int {
				switch call {
				case "POST disks":
					n := tries.Add(1)
					if n == 3 {
						close(three)
					}
					if n <= 3 { // three keys fail, which is the fault of none of them
						await(t, three)
					}
					return http.StatusServiceUnavailable
				case "GET disks":
					if tries.Load() > 0 { // no key tries again before all others wait
						await(t, allWait)
					}
				}
				return 0
			}
		})
		w.manySites(sites)
		natstest.Eventually(t, "all wait", func() bool { return w.c.Stats().External["Disk"].Waiting == sites })
		close(allWait)
		polls := w.cloud.Called("GET disks")
		natstest.Eventually(t, "it is polled again and again", func() bool {
			return w.cloud.Called("GET disks") > polls+8
		})
		n := int(tries.Load())
		if most := w.cloud.Called("GET disks") + 4; n > most { // a call of each worker may have been under way
			t.Errorf("%d creations tried, want at most %d", n, most)
		}
		if opened := w.c.Stats().BreakerOpened; opened > 1 {
			t.Errorf("the breaker opened %d times, though the API never answered", opened)
		}
		if pause := w.c.engine.APIStats()["Disk"].Pause; pause < quick.BackoffMax/4 {
			t.Errorf("the pause is %v after many failures, it does not grow towards %v", pause, quick.BackoffMax)
		}
		if s := w.c.Stats(); s.Failures != 0 {
			t.Errorf("%d failures", s.Failures)
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Fault = nil })
		natstest.Eventually(t, "all have their disks", func() bool { return w.cloud.Count() == sites })
		for i := range sites {
			if n := w.cloud.CreatedFor(fmt.Sprintf("s%d", i)); n != 1 {
				t.Errorf("s%d: %d disks were created", i, n)
			}
		}
	})
}

// await waits until c is closed, or the test is over.
func await(t *testing.T, c <-chan struct{}) {
	select {
	case <-c:
	case <-t.Context().Done():
	}
}

func TestAReconcilerOfItsOwnOpensTheBreakerThatItNames(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things, disks := cloudtest.NewListed(), &disks{}
		var away sync.Map
		away.Store("Thing", true)
		reconcile := func(_ context.Context, req Request) (Result, error) {
			if _, is := away.Load("Thing"); is && req.Key == "home" {
				return Result{}, external.UnavailableOf("Thing", errors.New("as the test wishes"))
			}
			return Result{}, nil
		}
		// Its lists fail too, so that the breaker stays open.
		failed := errors.New("as the test wishes")
		var seen calls
		c, err := New("sites", sites, seen.reconciler(reconcile),
			OwnsExternal(external.Configure(things, quick)), OwnsExternal(external.Configure(disks, quick)))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		things.Fails.Store(&failed)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("shop", "")))
		natstest.Eventually(t, "home waits", func() bool { return c.Stats().External["Thing"].Waiting == 1 })
		natstest.Eventually(t, "shop does not", func() bool { return seen.count("shop") > 0 })
		if s := c.Stats(); s.External["Disk"].Away || s.Failures != 0 {
			t.Errorf("%+v", s)
		}
		away.Delete("Thing")
		things.Fails.Store(nil)
		natstest.Eventually(t, "home is tried again", func() bool {
			return seen.with("home", OperationRetry) > 0 && c.Stats().External["Thing"].Waiting == 0
		})
	})
}

// TestOnSourceErrorHearsThatAnAPIWentAwayAndCameBack, and that is two events about the controller.
func TestOnSourceErrorHearsThatAnAPIWentAwayAndCameBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		type news struct {
			source string
			err    error
		}
		heard := make(chan news, 100)
		var told events
		w := newCloudWorld(t, quick, leaveDisks, WithEventRecorder(&told),
			WithOnSourceError(func(source string, err error) { heard <- news{source, err} }))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false)
		hears := func() error { // of the disks: a bucket may have been away for a moment
			for {
				if n := receive(t, "news of the disks", heard); n.source == "OwnsExternal Disk" {
					return n.err
				}
			}
		}
		if err := hears(); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("heard %v", err)
		}
		natstest.Eventually(t, "that is an event", func() bool { return len(told.with("APIAway")) == 1 })
		w.cloud.ComeBack()
		for hears() != nil {
		}
		natstest.Eventually(t, "that is an event", func() bool { return len(told.with("APIBack")) == 1 })
		for _, e := range append(told.with("APIAway"), told.with("APIBack")...) {
			if e.kind != "Controller" || e.object != "sites" || !strings.HasPrefix(e.message, "OwnsExternal Disk") {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestAReplicaThatTakesOverWaitsForTheAPIToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		timing := WithLeaseTiming(longLease)
		w := newCloudWorld(t, withInterval(notInATest), nil, timing)
		first := w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("old", 1)))
		natstest.Eventually(t, "the disk is there", func() bool { return w.reconciled("old") })
		other := &cloudWorld{world: w.world, cloud: w.cloud, sites: w.world.sites(), driver: w.driver, config: w.config}
		other.controller(nil, timing)
		w.run(other.c)
		natstest.Eventually(t, "the other is warm", func() bool {
			return other.c.Stats().External["Disk"].Resources == 1
		})
		w.cloud.GoAway(false)
		must(t, w.sites.Create(t.Context(), sized("new", 1)))
		must(t, w.sites.Delete(t.Context(), "old"))
		natstest.Eventually(t, "both wait", func() bool { return w.c.Stats().External["Disk"].Waiting == 2 })
		first.halt()
		natstest.Eventually(t, "both wait at the other", func() bool {
			return other.c.Stats().External["Disk"].Waiting == 2
		})
		w.cloud.ComeBack()
		natstest.Eventually(t, "and are done", func() bool {
			return w.cloud.Of("new") == "=1" && w.cloud.Of("old") == "" && w.reconciled("new") && w.gone("old")
		})
	})
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// leaveDisks reconciles nothing: what is seen is the source's doing.
func leaveDisks(*cloudWorld) ReconcilerFunc {
	return func(context.Context, Request) (Result, error) { return Result{}, nil }
}

// diskFor is a disk as the controller would have made it.
func (w *cloudWorld) diskFor(owner, name string) cloudtest.Disk {
	return cloudtest.Disk{Owner: owner, Instance: w.c.engine.InstanceID(), Name: name, Size: 1}
}

// notInATest is an interval that does not come.
const notInATest = time.Hour

func withInterval(d time.Duration) external.Config {
	config := quick
	config.Interval = d
	return config
}

func TestWhatSomebodyChangesBehindTheAPIIsSeenAndRepaired(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 7)))
		natstest.Eventually(t, "the disk is there", func() bool {
			return w.cloud.Of("home") == "=7" && w.reconciled("home")
		})
		natstest.Eventually(t, "it is listed, and its owner has heard of it and is done", func() bool {
			return w.seen.with("home", OperationExternal) == 1 && w.c.Stats().Reconciles == uint64(w.seen.count("home"))
		})
		w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Size = 3 })
		natstest.Eventually(t, "the edit is undone", func() bool { return w.cloud.Of("home") == "=7" })
		if w.seen.with("home", OperationExternal) < 2 {
			t.Errorf("no reconcile with OperationExternal for the edit: %v", w.seen.of("home"))
		}
		w.cloud.Remove("home")
		natstest.Eventually(t, "the disk is made again", func() bool { return w.cloud.Of("home") == "=7" })
		if n := w.cloud.CreatedFor("home"); n != 2 {
			t.Errorf("created %d times, want 2", n)
		}
	})
}

// TestWhatIsDeletedBeforeAnyListShowedItIsMadeAgain: no two lists differ by it.
func TestWhatIsDeletedBeforeAnyListShowedItIsMadeAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := quick
		config.Interval = time.Second
		w := newCloudWorld(t, config, nil)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 7)))
		natstest.Eventually(t, "the disk is there", func() bool {
			return w.cloud.Of("home") == "=7" && w.reconciled("home")
		})
		w.cloud.Remove("home")
		natstest.Eventually(t, "the disk is made again", func() bool {
			return w.cloud.Of("home") == "=7" && w.cloud.CreatedFor("home") == 2
		})
	})
}

func TestAListThatFailsChangesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the site is known", func() bool { return w.seen.count("home") > 0 })
		w.cloud.Add(w.diskFor("home", ""))
		natstest.Eventually(t, "the disk is noticed", func() bool {
			return w.seen.with("home", OperationExternal) == 1
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Status = http.StatusInternalServerError })
		natstest.Eventually(t, "lists fail", func() bool { return w.c.Stats().External["Disk"].Away })
		lists := w.cloud.Called("GET disks")
		natstest.Eventually(t, "more lists fail", func() bool { return w.cloud.Called("GET disks") > lists+3 })
		if s := w.c.Stats(); s.External["Disk"].Resources != 1 {
			t.Errorf("%d disks known after lists that failed, want 1", s.External["Disk"].Resources)
		}
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Status = 0 })
		natstest.Eventually(t, "lists succeed", func() bool { return !w.c.Stats().External["Disk"].Away })
		if n := w.seen.with("home", OperationExternal); n != 1 {
			t.Errorf("%d reconciles, want 1: nothing has changed", n)
		}
	})
}

func TestOldAndNewOwnerHearOfAResourceThatMoves(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		must(t, w.sites.Create(t.Context(), sized("shop", 1)))
		natstest.Eventually(t, "the sites are known", func() bool {
			return w.seen.count("home") > 0 && w.seen.count("shop") > 0
		})
		w.cloud.Add(w.diskFor("home", ""))
		natstest.Eventually(t, "the owner hears of it", func() bool {
			return w.seen.with("home", OperationExternal) == 1
		})
		w.cloud.Edit("home", func(d *cloudtest.Disk) { d.Owner = "shop" })
		natstest.Eventually(t, "both hear of the move", func() bool {
			return w.seen.with("home", OperationExternal) == 2 && w.seen.with("shop", OperationExternal) == 1
		})
		w.cloud.Remove("shop")
		natstest.Eventually(t, "the owner hears that it is gone", func() bool {
			return w.seen.with("shop", OperationExternal) == 2
		})
		if n := w.seen.with("home", OperationExternal); n != 2 {
			t.Errorf("the old owner heard %d times, want 2", n)
		}
	})
}

func TestMalformedResourcesAreReportedAndTheRestIsNotLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := cloudtest.NewListed(
			external.Resource{ID: "a", OwnerKey: "home", Version: "1"},
			external.Resource{ID: "both", OwnerKey: "home", Version: "1"},
		)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("shop", "")))
		w.run(c)
		natstest.Eventually(t, "two things are known", func() bool { return seen.with("home", OperationExternal) > 0 })
		before := seen.with("home", OperationExternal)
		things.Resources.Store(&[]external.Resource{
			{ID: "", OwnerKey: "home", Version: "1"},
			{ID: "both", OwnerKey: "home", Version: "1"},
			{ID: "both", OwnerKey: "shop", Version: "1"},
			{ID: "nobody", Version: "1"},
			{ID: "odd", OwnerKey: "no such key/at/all", Version: "1"},
			{ID: "a", OwnerKey: "home", Version: "2"},
		})
		natstest.Eventually(t, "it is reported", func() bool {
			reason := c.Stats().Degraded["OwnsExternal Thing"]
			return reason != nil && strings.Contains(reason.Error(), `ID "both"`) &&
				strings.Contains(reason.Error(), "no ID") &&
				strings.Contains(reason.Error(), `"nobody" names no owner`)
		})
		natstest.Eventually(t, "what is well formed counts", func() bool {
			return seen.with("home", OperationExternal) > before
		})
		lists, heard := things.Lists.Load(), seen.with("home", OperationExternal)
		natstest.Eventually(t, "it is listed again and again", func() bool { return things.Lists.Load() > lists+5 })
		if n := seen.with("home", OperationExternal); n > heard+1 {
			t.Errorf("woken %d times by lists that say the same", n-heard)
		}

		// What several resources call themselves is nobody's to delete, and neither is what nobody owns.
		must(t, sites.Delete(t.Context(), "home"))
		if id := <-things.Deleted; id != "a" {
			t.Errorf("deleted %q, want a", id)
		}
		natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
		select {
		case id := <-things.Deleted:
			t.Errorf("deleted %q too", id)
		default:
		}
		things.Resources.Store(&[]external.Resource{{ID: "fine", OwnerKey: "shop", Version: "1"}})
		natstest.Eventually(t, "a list without fault heals it", func() bool {
			return c.Stats().Degraded["OwnsExternal Thing"] == nil
		})
	})
}

// pushing is a client that pushes, for one call of Watch each time the test sends something.
type pushing struct {
	*cloudtest.Listed
	pushes  chan string
	watches atomic.Int64
	ends    chan string // "return", "fail" or "panic"
}

func (p *pushing) Watch(ctx context.Context, changed func(string)) error {
	p.watches.Add(1)
	for {
		select {
		case owner := <-p.pushes:
			changed(owner)
		case how := <-p.ends:
			switch how {
			case "panic":
				panic("as the test wishes")
			case "fail":
				return errors.New("as the test wishes")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAPushWakesTheOwnerAndListsSoon(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := &pushing{Listed: cloudtest.NewListed(), pushes: make(chan string), ends: make(chan string)}
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil),
			OwnsExternal(external.Configure(things, withInterval(notInATest))))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		w.run(c)
		natstest.Eventually(t, "the site is known", func() bool { return seen.count("home") == 1 })
		lists := things.Lists.Load()
		things.Resources.Store(&[]external.Resource{{ID: "a", OwnerKey: "home", Version: "1"}})
		began := time.Now()
		for tick := time.NewTicker(2 * time.Millisecond); time.Since(began) < 5*apisource.WantedGap; <-tick.C {
			things.pushes <- "home"
		}
		natstest.Eventually(t, "the owner is woken", func() bool { return seen.with("home", OperationExternal) > 0 })
		natstest.Eventually(t, "the new thing is known", func() bool {
			return c.Stats().External["Thing"].Resources == 1
		})
		if n, most := things.Lists.Load()-lists, 2+int64(time.Since(began)/apisource.WantedGap); n > most {
			t.Errorf("%d lists for many pushes, want at most %d: they should share", n, most)
		}
		for i, how := range []string{"return", "fail", "panic"} {
			lists := things.Lists.Load()
			things.ends <- how
			natstest.Eventually(t, "Watch is called again after "+how, func() bool {
				return things.watches.Load() == int64(i+2)
			})
			natstest.Eventually(t, "and something may have been missed: it is listed", func() bool {
				return things.Lists.Load() > lists
			})
		}
	})
}

// TestAWatchThatFailsAllTheTimeIsToldEachTimeThatTheFailuresHaveDoubled: it was a line a minute, for ever.
func TestAWatchThatFailsAllTheTimeIsToldEachTimeThatTheFailuresHaveDoubled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		things := &pushing{Listed: cloudtest.NewListed(), pushes: make(chan string), ends: make(chan string, 1000)}
		for range cap(things.ends) {
			things.ends <- "fail"
		}
		var lines logLines
		c, err := New("sites", w.sites(), (&calls{}).reconciler(nil),
			OwnsExternal(external.Configure(things, withInterval(notInATest))))
		must(t, err)
		w.run(logging{c, lines.logger()})
		natstest.Eventually(t, "Watch was called often", func() bool { return things.watches.Load() > 130 })
		told := 0
		for _, line := range lines.with("Watch ended, will be called again") {
			if line["level"] == 0.0 {
				told++
			}
		}
		if told != 8 {
			t.Errorf("told %d times of %d failures", told, things.watches.Load())
		}
	})
}

// tellingEarly is an API that pushes a delete before it has made it: the next list still shows the resources.
type tellingEarly struct {
	*pushing
	told  atomic.Bool
	since atomic.Int64 // lists since then
}

func (t *tellingEarly) List(ctx context.Context) ([]external.Resource, error) {
	if t.told.Load() && t.since.Add(1) > 1 {
		t.Resources.Store(&[]external.Resource{})
	}
	return t.Listed.List(ctx)
}

// TestAPushThatComesBeforeWhatItTellsIsNotLost: some APIs say that they delete before they have done it, so a look at
// once still sees the resource.
func TestAPushThatComesBeforeWhatItTellsIsNotLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		listed := cloudtest.NewListed(external.Resource{ID: "a", OwnerKey: "home", Version: "1"})
		things := &tellingEarly{pushing: &pushing{Listed: listed, pushes: make(chan string), ends: make(chan string)}}
		var c *Controller[*site]
		var sawItGone atomic.Bool
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationExternal) && c.Stats().External["Thing"].Resources == 0 {
				sawItGone.Store(true)
			}
			return Result{}, nil
		}), OwnsExternal(external.Configure(things, withInterval(notInATest))))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		w.run(c)
		// It leads, or a list that shows the thing gone would make nobody due.
		natstest.Eventually(t, "the thing is known", func() bool {
			s := c.Stats()
			return s.Leading && s.External["Thing"].Resources == 1
		})
		things.told.Store(true)
		things.pushes <- "home"
		natstest.Eventually(t, "its owner is woken when it is gone", sawItGone.Load)
		if n := things.since.Load(); n < 2 {
			t.Errorf("%d lists: none has shown the thing after the push", n)
		}
	})
}

func TestCascadeDeletesWhatAPrimaryOwnsBehindAnAPIAndWaitsUntilItIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		createOnly := func(w *cloudWorld) ReconcilerFunc {
			reconcile := disksOf(w.sites, w.driver, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{}, nil // the runtime cleans up
				}
				return reconcile(ctx, req)
			}
		}
		// Nothing is listed by itself: what was created a moment ago must be found all the same.
		w := newCloudWorld(t, withInterval(notInATest), createOnly)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		must(t, w.sites.Create(t.Context(), sized("shop", 1)))
		natstest.Eventually(t, "the disks are there", func() bool {
			return w.reconciled("home") && w.reconciled("shop") && w.cloud.Count() == 2
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the disk is being deleted", func() bool { return w.cloud.Called("DELETE disks") > 0 })
		lists := w.cloud.Called("GET disks")
		natstest.Eventually(t, "it is listed whether it is gone", func() bool {
			return w.cloud.Called("GET disks") > lists
		})
		if w.gone("home") {
			t.Error("the record is gone before the disk")
		}
		w.finish("")
		natstest.Eventually(t, "all is gone", func() bool { return w.cloud.Of("home") == "" && w.gone("home") })
		if w.cloud.Of("shop") != "=1" {
			t.Error("the other site's disk is gone too")
		}
	})
}

func TestSweepDeletesExternalResourcesWhoseOwnerDoesNotExist(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks, WithResyncInterval(time.Second))
		were(t, w.sites, "ghost")
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the site is known", func() bool { return w.seen.count("home") > 0 })
		w.cloud.Add(w.diskFor("home", ""))
		w.cloud.Add(w.diskFor("ghost", "a"))
		w.cloud.Add(w.diskFor("ghost", "b"))
		w.cloud.Add(cloudtest.Disk{Owner: "ghost", Instance: "another installation", Name: "theirs", Size: 1})
		natstest.Eventually(t, "the orphans are gone", func() bool { return w.cloud.Of("ghost") == "theirs=1" })
		if w.cloud.Of("home") != "=1" {
			t.Error("a disk with an owner is gone")
		}
	})
}

func TestBrakeHoldsASweepOfExternalResources(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks, WithResyncInterval(time.Second))
		for i := range 12 {
			were(t, w.sites, fmt.Sprintf("ghost%d", i))
		}
		w.run(w.c)
		natstest.Eventually(t, "it works", func() bool { return w.c.Stats().Leading && w.c.Stats().Sweeps > 0 })
		w.cloud.Set(func(c *cloudtest.Cloud) {
			for i := range 12 {
				c.Create(w.diskFor(fmt.Sprintf("ghost%d", i), ""))
			}
		})
		natstest.Eventually(t, "the brake engages", func() bool { return w.c.Stats().Brake.Engaged })
		sweeps := w.c.Stats().Sweeps
		natstest.Eventually(t, "more sweeps", func() bool { return w.c.Stats().Sweeps > sweeps+3 })
		if n := w.cloud.Count(); n != 12 {
			t.Errorf("%d disks are left, want 12", n)
		}
		must(t, w.c.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "released, they go", func() bool { return w.cloud.Count() == 0 })
	})
}

func TestRunFailsByNameWhereTheAPIIsNeverListed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, quick, leaveDisks, shortSync())
		started(w.world, w.sites)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Status = http.StatusForbidden })
		err := w.c.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "OwnsExternal Disk") || !strings.Contains(err.Error(), "403") {
			t.Errorf("Run: %v; want an error that names the source and the reason", err)
		}
	})
}

func TestRateLimitHoldsForListsAndDriverCallsTogether(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := quick
		config.Interval, config.Rate, config.Burst = time.Millisecond, 40, 5
		w := newCloudWorld(t, config, nil, WithWorkers(8))
		start := time.Now()
		for i := range 10 {
			must(t, w.sites.Create(t.Context(), sized(fmt.Sprintf("s%d", i), 1)))
		}
		w.run(w.c)
		natstest.Eventually(t, "all disks are there", func() bool { return w.cloud.Count() == 10 })
		calls := w.cloud.Called("GET disks") + w.cloud.Called("GET find") + w.cloud.Called("POST disks")
		if most := 5 + 40*time.Since(start).Seconds() + 1; float64(calls) > most {
			t.Errorf("%d calls in %v, at most %.0f are allowed", calls, time.Since(start), most)
		}
	})
}

// seenDeleter is a client that can delete what was seen only.
type seenDeleter struct{ *cloudtest.Listed }

func (d seenDeleter) DeleteSeen(ctx context.Context, seen external.Resource) error {
	for _, now := range *d.Resources.Load() {
		if now.ID == seen.ID && now != seen {
			return fmt.Errorf("%s has changed", seen.ID)
		}
	}
	return d.Delete(ctx, seen.ID+"@"+seen.Version)
}

func TestConditionalDeleterIsGivenWhatWasSeen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := seenDeleter{cloudtest.NewListed(external.Resource{ID: "a", OwnerKey: "home", Version: "7"})}
		c, err := New("sites", sites, noReconciler, OwnsExternal(external.Configure(things, quick)))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		w.run(c)
		natstest.Eventually(t, "the site is known", func() bool { return c.Stats().Reconciles > 0 })
		must(t, sites.Delete(t.Context(), "home"))
		if id := <-things.Deleted; id != "a@7" {
			t.Errorf("deleted %q, want what was seen: a@7", id)
		}
		things.Resources.Store(&[]external.Resource{})
		natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
	})
}

func TestAListOrDeleteThatPanicsIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		things := &panicking{Listed: cloudtest.NewListed(external.Resource{ID: "a", OwnerKey: "home", Version: "1"})}
		c, err := New("sites", sites, noReconciler, OwnsExternal(external.Configure(things, quick)),
			WithBackoff(time.Millisecond, 10*time.Millisecond))
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		things.panics.Store(2)
		w.run(c)
		natstest.Eventually(t, "the lists that panicked are made again", func() bool {
			return c.Stats().Reconciles > 0
		})
		things.panics.Store(2)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the delete that panicked is made again", func() bool { return c.Stats().TornDown == 1 })
	})
}

type panicking struct {
	*cloudtest.Listed
	panics atomic.Int64
}

func (p *panicking) List(ctx context.Context) ([]external.Resource, error) {
	p.maybe()
	return p.Listed.List(ctx)
}

func (p *panicking) Delete(ctx context.Context, id string) error {
	p.maybe()
	return p.Listed.Delete(ctx, id)
}

func (p *panicking) maybe() {
	if p.panics.Add(-1) >= 0 {
		panic("as the test wishes")
	}
}

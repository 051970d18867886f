package controller

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// listNow makes the disks of a cloud known that were made without the controller.
func (w *cloudWorld) listNow(resources int) {
	w.t.Helper()
	w.c.engine.APIs.Source("Disk").WantList(time.Now())
	natstest.Eventually(w.t, "the disks are listed", func() bool {
		return w.c.Stats().External["Disk"].Resources == resources
	})
}

func TestCascadeLeavesWhatAnotherPrimaryHasTakenOverSinceTheLastList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), leaveDisks)
		must(t, w.sites.Create(t.Context(), sized("old", 1)))
		must(t, w.sites.Create(t.Context(), sized("new", 1)))
		w.run(w.c)
		natstest.Eventually(t, "both are reconciled", func() bool { return w.reconciled("old") && w.reconciled("new") })
		w.cloud.Add(w.diskFor("old", ""))
		w.listNow(1)
		w.cloud.Edit("old", func(d *cloudtest.Disk) { d.Owner = "new" })
		must(t, w.sites.Delete(t.Context(), "old"))
		natstest.Eventually(t, "the old one is torn down", func() bool { return w.gone("old") })
		if w.cloud.Of("new") != "=1" {
			t.Error("the disk of the other primary was deleted")
		}
	})
}

// TestTeardownDeletesWhatIsBehindOtherAPIsWhileAnIntentIsOpen: what may have been begun is told by one list; the
// others are not waited for it.
func TestTeardownDeletesWhatIsBehindOtherAPIsWhileAnIntentIsOpen(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		things := cloudtest.NewListed()
		w := newCloudWorld(t, withInterval(notInATest), onlyApply(quickly...),
			OwnsExternal(external.Configure(things, withInterval(notInATest))))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.Failing("POST disks", http.StatusInternalServerError)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "an intent is open", func() bool { return w.intentOf("home") != nil })
		things.Resources.Store(&[]external.Resource{{ID: "thing", OwnerKey: "home", Version: "1"}})
		w.c.engine.APIs.Source("Thing").WantList(time.Now())
		natstest.Eventually(t, "the thing is known", func() bool {
			return w.c.Stats().External["Thing"].Resources == 1
		})
		w.cloud.GoAway(false)
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the thing is deleted", func() bool { return len(things.Deleted) == 1 })
		if w.gone("home") {
			t.Error("forgotten, though nobody knows what came of the intent")
		}
		w.cloud.ComeBack()
		natstest.Eventually(t, "the teardown ends", func() bool { return w.c.Stats().TornDown == 1 })
	})
}

// TestTeardownDeletesTheRestWhileAnOperationGoesOn: only the driver can ask for the operation, and its API keeps what
// it has, but what is behind another one goes.
func TestTeardownDeletesTheRestWhileAnOperationGoesOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		things := cloudtest.NewListed()
		w := newCloudWorld(t, withInterval(notInATest), onlyApply(quickly...),
			OwnsExternal(external.Configure(things, withInterval(notInATest))))
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it is reconciled", func() bool {
			return w.reconciled("home") && w.cloud.Of("home") == "=1"
		})
		w.listNow(1)
		things.Resources.Store(&[]external.Resource{{ID: "thing", OwnerKey: "home", Version: "1"}})
		w.c.engine.APIs.Source("Thing").WantList(time.Now())
		natstest.Eventually(t, "the thing is known", func() bool {
			return w.c.Stats().External["Thing"].Resources == 1
		})
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.resize("home", 2)
		natstest.Eventually(t, "the operation is known", func() bool {
			return strings.Contains(w.intents("home"), "op-")
		})
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the thing is deleted", func() bool { return len(things.Deleted) == 1 })
		natstest.Eventually(t, "the teardown does not end", func() bool {
			return w.c.Stats().Failing == 1 && w.c.Explain("home").Failures > 3
		})
		if w.gone("home") || w.cloud.Count() != 1 || w.cloud.Called("DELETE disks") > 0 {
			t.Errorf("gone: %v, disks: %d, asked to be deleted %d times; the operation goes on", w.gone("home"),
				w.cloud.Count(), w.cloud.Called("DELETE disks"))
		}
	})
}

// slowList is a client whose lists take a while.
type slowList struct {
	*cloudtest.Listed
	kind  string
	takes time.Duration
}

func (s *slowList) Kind() string { return s.kind }

func (s *slowList) List(ctx context.Context) ([]external.Resource, error) {
	if !sleep(ctx, s.takes) {
		return nil, ctx.Err()
	}
	return s.Listed.List(ctx)
}

func TestTeardownEndsWhereTheListsOfSeveralClientsTakeDifferentTimes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		owned := external.Resource{ID: "a", OwnerKey: "home", Version: "1"}
		one, two := &slowList{cloudtest.NewListed(owned), "One",
			20 * time.Millisecond}, &slowList{cloudtest.NewListed(owned), "Two", 150 * time.Millisecond}
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), OwnsExternal(external.Configure(one, withInterval(notInATest))),
			OwnsExternal(external.Configure(two, withInterval(notInATest))))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "reconciled", func() bool { return seen.count("home") > 0 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown ends", func() bool { return c.Stats().TornDown == 1 })
		if n, m := len(one.Deleted), len(two.Deleted); n != 1 || m != 1 {
			t.Errorf("deleted %d and %d times, want once each", n, m)
		}
	})
}

// TestTeardownEndsUnderALowRate: neither the reconcile of the delete nor what was deleted already may take the
// turn that the cascade needs, again and again.
func TestTeardownEndsUnderALowRate(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Rate, config.Burst = 0.9, 1
		w := newCloudWorld(t, config, func(w *cloudWorld) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				if !req.Operations.Has(OperationDelete) {
					return Result{}, nil
				}
				result, err := external.ReconcileAbsent(ctx, w.driver, quickly...)
				return Result{RequeueAfter: result.RequeueAfter}, err
			}
		}, WithResyncInterval(0))
		must(t, w.sites.Create(t.Context(), sized("home", 0)))
		w.run(w.c)
		natstest.Eventually(t, "reconciled", func() bool { return w.reconciled("home") })
		w.cloud.Add(w.diskFor("home", "left to the cascade"))
		w.cloud.Add(w.diskFor("home", "and another"))
		w.listNow(2)
		must(t, w.sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown ends", func() bool { return w.c.Stats().TornDown == 1 })
		if n := w.cloud.Count(); n > 0 {
			t.Errorf("%d disks are left", n)
		}
	})
}

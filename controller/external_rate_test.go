package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestARateLimitHoldsUpNoPrimaryThatNeedsNoAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		// what comes after the burst does not come in a test
		config.Rate, config.Burst = 0.01, 4
		// the one that goes on waits
		w := newCloudWorld(t, config, plainBeside, WithWorkers(8), WithGracePeriod(time.Second))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.manySites(20)
		natstest.Eventually(t, "most were turned away", func() bool {
			return w.c.engine.APIStats()["Disk"].TurnedAway >= 17
		})
		must(t, w.sites.Create(t.Context(), sized("plain", 1)))
		natstest.Eventually(t, "the plain one has a worker", func() bool { return w.reconciled("plain") })
		if s := w.c.Stats(); s.Failures != 0 || s.Failing != 0 {
			t.Errorf("%d failures, %d keys failing", s.Failures, s.Failing)
		}
	})
}

func TestWhoIsTurnedAwayByARateLimitGetsItsTurn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Rate, config.Burst = 10, 1
		w := newCloudWorld(t, config, nil, WithWorkers(20), WithResyncInterval(0)) // the turn of s10 comes early
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		start := time.Now()
		const sites = 15
		w.manySites(sites)
		for i := range sites {
			key := fmt.Sprintf("s%d", i)
			natstest.Eventually(t, key+" has its disk", func() bool {
				return w.cloud.Of(key) == "=1" && w.reconciled(key)
			})
			if ops := w.seen.of(key); !ops[len(ops)-1].Has(OperationPut) {
				t.Errorf("%s: the attempt that succeeded had %v, want Put", key, ops[len(ops)-1])
			}
		}
		calls := w.cloud.Called("GET find") + w.cloud.Called("POST disks") + w.cloud.Called("GET disks")
		if most := 2 + 10*time.Since(start).Seconds() + 10; float64(calls) > most {
			t.Errorf("%d calls in %v, at most %.0f are allowed", calls, time.Since(start), most)
		}
		if n := w.c.engine.APIStats()["Disk"].TurnedAway; n != 0 {
			t.Errorf("%d keys are remembered as turned away", n)
		}
		for i := range sites {
			must(t, w.sites.Delete(t.Context(), fmt.Sprintf("s%d", i)))
			if i == 3 {
				break // more at once are the brake's business
			}
		}
		natstest.Eventually(t, "so do teardowns", func() bool {
			return w.cloud.Count() == sites-4 && w.gone("s0") && w.gone("s3")
		})
	})
}

// TestARateLimitWithABurstHoldsOneWorker: the burst lets each of them begin, and none of them end.
func TestARateLimitWithABurstHoldsOneWorker(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Rate, config.Burst = 0.01, 5 // the first list, and a find for each worker
		began := make(chan struct{})
		w := newCloudWorld(t, config, plainBeside, WithWorkers(4), WithGracePeriod(time.Second))
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Stage = func(stage, call, _ string) {
				if stage == "before" && call == "GET find" {
					<-began
				}
			}
		})
		w.manySites(20)
		w.run(w.c)
		natstest.Eventually(t, "all have begun", func() bool { return w.cloud.Called("GET find") == 4 })
		close(began)
		must(t, w.sites.Create(t.Context(), sized("plain", 1)))
		natstest.Eventually(t, "the plain one has a worker", func() bool { return w.reconciled("plain") })
	})
}

// plainBeside reconciles the site "plain" without the API, and the rest as usual.
func plainBeside(w *cloudWorld) ReconcilerFunc {
	reconcile := disksOf(w.sites, w.driver, quickly...)
	return func(ctx context.Context, req Request) (Result, error) {
		if req.Key == "plain" {
			return Result{}, nil
		}
		return reconcile(ctx, req)
	}
}

// thingDriver makes things, which are disks of another name.
type thingDriver struct{ *cloudtest.Driver }

func (thingDriver) Kind() string { return "Thing" }

func TestARateLimitHoldsUpNobodyWhoHasCalledAnotherAPI(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Rate, config.Burst = 0.01, 1
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			disks, things := plainBeside(w), oneDisk(thingDriver{w.driver}, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				result, err := disks(ctx, req)
				if err != nil || req.Key == "plain" {
					return result, err
				}
				return things(ctx, req)
			}
		}, WithWorkers(4), OwnsExternal(external.Configure(cloudtest.NewListed(), config)), WithGracePeriod(time.Second))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.manySites(6)
		natstest.Eventually(t, "all have disks, and were turned away by the other API", func() bool {
			return w.cloud.Count() == 6 && w.c.engine.APIStats()["Thing"].TurnedAway == 6
		})
		must(t, w.sites.Create(t.Context(), sized("plain", 1)))
		natstest.Eventually(t, "the plain one has a worker", func() bool { return w.reconciled("plain") })
	})
}

// turnedAway is a world whose rate leaves no turns after the burst, and how many keys wait for one there.
func turnedAway(t *testing.T, burst int) (w *cloudWorld, keys func() int) {
	t.Helper()
	config := withInterval(notInATest)
	config.Rate, config.Burst = 0.01, burst
	w = newCloudWorld(t, config, nil, WithGracePeriod(time.Second))
	return w, func() int { return w.c.Stats().External["Disk"].TurnedAway }
}

func TestWhoWasTurnedAwayByARateLimitIsLetGoWithTheTerm(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, keys := turnedAway(t, 1)
		r := w.run(w.c)
		w.manySites(6)
		natstest.Eventually(t, "all are turned away", func() bool { return keys() == 6 })
		r.halt()
		if n := keys(); n > 0 {
			t.Errorf("%d keys are remembered, whose turns others would wait for", n)
		}
	})
}

func TestWhoWasTurnedAwayByARateLimitAndIsSuspendedIsLetGo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, keys := turnedAway(t, 1)
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "turned away", func() bool { return keys() == 1 })
		must(t, w.sites.Patch(t.Context(), "home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
		natstest.Eventually(t, "let go", func() bool { return keys() == 0 })
	})
}

func TestARateLimitLeavesTheConditionOfWhatIsReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, keys := turnedAway(t, 4) // list, find, create, find
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "reconciled", func() bool { return w.reconciled("home") })
		before, err := w.sites.Record(t.Context(), "home")
		must(t, err)
		for range 2 { // the second begins when what the first writes is written
			attempts := w.seen.count("home")
			w.c.Enqueue("home", OperationManual)
			natstest.Eventually(t, "turned away", func() bool { return keys() == 1 && w.seen.count("home") > attempts })
		}
		after, err := w.sites.Record(t.Context(), "home")
		must(t, err)
		if after.Revision != before.Revision {
			t.Errorf("written for no more than a turn: %+v", after.Conditions)
		}
		w.resize("home", 2)
		natstest.Eventually(t, "what is not reconciled says so", func() bool {
			return w.condition("home", entity.ReasonRetrying) != ""
		})
	})
}

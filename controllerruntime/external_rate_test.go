package controllerruntime

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestARateLimitHoldsUpNoPrimaryThatNeedsNoAPI(t *testing.T) {
	config := withInterval(notInATest)
	config.Rate, config.Burst = 0.01, 4 // what comes after the burst does not come in a test
	w := newCloudWorld(t, config, func(w *cloudWorld) ReconcilerFunc {
		reconcile := disksOf(w.sites, w.driver, quickly...)
		return func(ctx context.Context, req Request) (Result, error) {
			if req.Key == "plain" {
				return Result{}, nil
			}
			return reconcile(ctx, req)
		}
	}, WithWorkers(8))
	w.run(w.c)
	eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
	w.manySites(20)
	eventually(t, "most were turned away", func() bool { return w.c.engine.external("Disk").turnedAway.len() >= 17 })
	must(t, w.sites.Create(t.Context(), sized("plain", 1)))
	eventually(t, "the plain one has a worker", func() bool { return w.reconciled("plain") })
	if s := w.c.Stats(); s.Failures != 0 || s.Failing != 0 {
		t.Errorf("%d failures, %d keys failing", s.Failures, s.Failing)
	}
}

func TestWhoIsTurnedAwayByARateLimitGetsItsTurn(t *testing.T) {
	config := withInterval(notInATest)
	config.Rate, config.Burst = 10, 1
	w := newCloudWorld(t, config, nil, WithWorkers(20))
	w.run(w.c)
	eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
	start := time.Now()
	const sites = 15
	w.manySites(sites)
	for i := range sites {
		key := fmt.Sprintf("s%d", i)
		eventually(t, key+" has its disk", func() bool { return w.cloud.of(key) == "=1" && w.reconciled(key) })
		if ops := w.seen.of(key); !ops[len(ops)-1].Has(OperationPut) {
			t.Errorf("%s: the attempt that succeeded had %v, want Put", key, ops[len(ops)-1])
		}
	}
	calls := w.cloud.called("GET find") + w.cloud.called("POST disks") + w.cloud.called("GET disks")
	if most := 2 + 10*time.Since(start).Seconds() + 10; float64(calls) > most {
		t.Errorf("%d calls in %v, at most %.0f are allowed", calls, time.Since(start), most)
	}
	if n := w.c.engine.external("Disk").turnedAway.len(); n != 0 {
		t.Errorf("%d keys are remembered as turned away", n)
	}
	for i := range sites {
		must(t, w.sites.Delete(t.Context(), fmt.Sprintf("s%d", i)))
		if i == 3 {
			break // more at once are the brake's business
		}
	}
	eventually(t, "so do teardowns", func() bool { return w.cloud.count() == sites-4 && w.gone("s0") && w.gone("s3") })
}

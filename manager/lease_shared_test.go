package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/probes"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAProgramThatSharesItsLeaseWithAnotherSaysSo: the key of the lease defaults to the name of the program's file, so
// two programs that both are called "controller" share one.
func TestAProgramThatSharesItsLeaseWithAnotherSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		first := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the first leads", first.leadsAll)

		m := open(t, Config{URL: s.URL(), Lease: longLease(), GracePeriod: 5 * time.Second})
		idle := controller.ReconcilerFunc(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		})
		c, err := controller.New("billing", client(t, m, entity.Config{Kind: "Bill", Bucket: "bills"}), idle)
		must(t, err)
		must(t, m.Add(c))
		probe := probes.New()
		probe.Add("billing", c)
		ctx, log := withLog(context.Background())
		other := startIn(t, ctx, m)
		natstest.Eventually(t, "the other one has synced", func() bool { return c.Stats().Synced })
		time.Sleep(10 * time.Second)
		answer := probe.Ready()
		if len(answer.Problems) != 1 || !strings.Contains(answer.Problems[0].Reason, `only here ["billing"]`) ||
			!strings.Contains(answer.Problems[0].Reason, "Lease.Key") {
			t.Errorf("/readyz does not say why it never leads: %+v", answer)
		}
		if !answer.OK {
			t.Error("it is not ready: a rolling update that renames a controller would never end")
		}
		if n := strings.Count(log.text(), "held by one with other controllers"); n != 1 {
			t.Errorf("the log tells of it %d times", n)
		}
		must(t, first.stop())
		natstest.Eventually(t, "the other one leads, and all is well", func() bool {
			return c.Stats().Leading && len(probe.Ready().Problems) == 0
		})
		must(t, other.stop())
	})
}

func TestALeaseThatAsksForThirtyYearsIsNamedByEachStandbyUntilItIsTaken(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		s := startServer(t)
		first := startReplica(t, s.URL(), longLease())
		natstest.Eventually(t, "the first leads", first.leadsAll)
		kv, err := first.m.JetStream().KeyValue(t.Context(), "leases")
		must(t, err)
		_, err = kv.PutString(t.Context(), "fleet", `{"holderIdentity":"gone","leaseDurationSeconds":946080000}`)
		must(t, err)
		const problem = "lease (bucket leases)"
		natstest.Eventually(t, "no controller leads", first.leadsNone)
		time.Sleep(longLease().Timing.Duration + 10*time.Second)
		for _, stats := range first.stats {
			if err := stats().Degraded[problem]; err == nil || !strings.Contains(err.Error(), `held by "gone"`) {
				t.Errorf("degraded: %v", stats().Degraded)
			}
		}
		time.Sleep(time.Hour)
		if !first.leadsAll() || len(first.stats[0]().Degraded) != 0 {
			t.Errorf("an hour later it leads: %v, degraded %v", first.leadsAll(), first.stats[0]().Degraded)
		}
		must(t, first.stop())
	})
}

package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// slowDriver answers its first Apply when the reconcile's context has ended, with what the API has said.
type slowDriver struct {
	*cloudtest.Driver
	applying atomic.Int64
}

func (d *slowDriver) Apply(
	ctx context.Context, req external.ApplyRequest[cloudtest.Spec, cloudtest.Disk],
) (external.Outcome, error) {
	outcome, err := d.Driver.Apply(context.WithoutCancel(ctx), req)
	if d.applying.Add(1) == 1 {
		<-ctx.Done()
	}
	return outcome, err
}

// slowly reconciles with a slowDriver.
func slowly(d *slowDriver) func(*cloudWorld) ReconcilerFunc {
	return func(w *cloudWorld) ReconcilerFunc {
		d.Driver = w.driver
		return func(ctx context.Context, _ Request) (Result, error) {
			_, err := external.Reconcile(ctx, external.Driver[cloudtest.Spec, cloudtest.Disk](d),
				cloudtest.Spec{Size: 1}, quickly...)
			return Result{}, err
		}
	}
}

func TestTheHandleOfAnOperationIsKeptWhereTheReconcilesContextHasEnded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, slowly(&slowDriver{}), WithReconcileTimeout(200*time.Millisecond))
		w.cloud.Opaque()
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the operation is polled", func() bool { return w.cloud.Called("GET operations") > 1 })
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		if n := w.cloud.Called("POST disks"); n != 1 {
			t.Errorf("%d creates, want 1", n)
		}
	})
}

func TestALeaseThatIsLostWhileApplyRunsLosesNoOperation(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		d := &slowDriver{}
		w := apart(t, slowly(d), WithLeaseTiming(longLease))
		w.cloud.Opaque()
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "Apply runs", func() bool { return d.applying.Load() == 1 })
		first := w.c
		w.controller(slowly(d), WithLeaseTiming(longLease))
		second := w.c
		w.run(second)
		natstest.Eventually(t, "the other replica has the lease", func() bool {
			if _, revision, err := w.sites.Records().GetReserved(t.Context(), record.KeyLease); err == nil &&
				!second.Stats().Leading {
				// a renewal may come in between
				_, _ = w.sites.Records().PutReserved(t.Context(), record.KeyLease,
					[]byte(`{"holderIdentity":"","leaseDurationSeconds":1}`), revision)
			}
			return second.Stats().Leading && !first.Stats().Leading
		})
		polls := w.cloud.Called("GET operations")
		natstest.Eventually(t, "and polls the operation", func() bool {
			return w.cloud.Called("GET operations") > polls+1
		})
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		w.cloud.Mu.Lock()
		defer w.cloud.Mu.Unlock()
		if len(w.cloud.Tokens) != 1 || w.cloud.Created["home/"] != 1 {
			t.Errorf("created %d times, with %d tokens", w.cloud.Created["home/"], len(w.cloud.Tokens))
		}
	})
}

func TestAnOperationThatFailsMoreThanOnceIsTriedAgainWithATokenOfItsOwnEachTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := apart(t, nil)
		w.cloud.Set(func(c *cloudtest.Cloud) { c.Async = true })
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		for try := 1; try <= 3; try++ {
			natstest.Eventually(t, "it is begun", func() bool { return w.cloud.Called("POST disks") == try })
			natstest.Eventually(t, "and told under way", func() bool { return w.intentOf("home") != nil })
			w.finish("no space")
			natstest.Eventually(t, "the failure is told", func() bool { return w.c.Stats().Failures >= uint64(try) })
		}
		natstest.Eventually(t, "it is begun again", func() bool { return w.cloud.Called("POST disks") == 4 })
		w.finish("")
		natstest.Eventually(t, "created", func() bool { return w.cloud.Of("home") == "=1" && w.reconciled("home") })
		w.cloud.Mu.Lock()
		defer w.cloud.Mu.Unlock()
		if n := len(w.cloud.Tokens); n != 4 {
			t.Errorf("%d tokens for four intents", n)
		}
	})
}

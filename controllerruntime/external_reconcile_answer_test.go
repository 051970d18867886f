package controllerruntime

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
)

// slowDriver answers its first Apply when the reconcile's context has ended, with what the API has said.
type slowDriver struct {
	*diskDriver
	applying atomic.Int64
}

func (d *slowDriver) Apply(ctx context.Context, req external.ApplyRequest[diskSpec, cloudDisk]) (external.Outcome, error) {
	outcome, err := d.diskDriver.Apply(context.WithoutCancel(ctx), req)
	if d.applying.Add(1) == 1 {
		<-ctx.Done()
	}
	return outcome, err
}

// opaque makes an API that does things as operations, which nobody finds but by their handles.
func (c *cloud) opaque() {
	c.set(func(c *cloud) {
		c.async = true
		c.fault = func(call string, _ *http.Request) int {
			c.mu.Lock()
			defer c.mu.Unlock()
			if call == "GET find" && len(c.disks) == 0 {
				return http.StatusNotFound
			}
			return 0
		}
	})
}

// slowly reconciles with a slowDriver.
func slowly(d *slowDriver) func(*cloudWorld) ReconcilerFunc {
	return func(w *cloudWorld) ReconcilerFunc {
		d.diskDriver = w.driver
		return func(ctx context.Context, _ Request) (Result, error) {
			_, err := external.Reconcile(ctx, external.Driver[diskSpec, cloudDisk](d), diskSpec{Size: 1}, quickly...)
			return Result{}, err
		}
	}
}

func TestTheHandleOfAnOperationIsKeptWhereTheReconcilesContextHasEnded(t *testing.T) {
	w := apart(t, slowly(&slowDriver{}), WithReconcileTimeout(200*time.Millisecond))
	w.cloud.opaque()
	w.run(w.c)
	must(t, w.sites.Create(t.Context(), sized("home", 1)))
	eventually(t, "the operation is polled", func() bool { return w.cloud.called("GET operations") > 1 })
	w.cloud.finish("")
	eventually(t, "created", func() bool { return w.cloud.of("home") == "=1" && w.reconciled("home") })
	if n := w.cloud.called("POST disks"); n != 1 {
		t.Errorf("%d creates, want 1", n)
	}
}

func TestALeaseThatIsLostWhileApplyRunsLosesNoOperation(t *testing.T) {
	d := &slowDriver{}
	w := apart(t, slowly(d), WithLeaseTiming(quickLease))
	w.cloud.opaque()
	w.run(w.c)
	must(t, w.sites.Create(t.Context(), sized("home", 1)))
	eventually(t, "Apply runs", func() bool { return d.applying.Load() == 1 })
	first := w.c
	w.controller(slowly(d), WithLeaseTiming(quickLease))
	second := w.c
	w.run(second)
	eventually(t, "the other replica has the lease", func() bool {
		if _, revision, err := w.sites.Records().GetReserved(t.Context(), record.KeyLease); err == nil && !second.Stats().Leading {
			_ = w.sites.Records().DeleteReserved(t.Context(), record.KeyLease, revision) // a renewal may come in between
		}
		return second.Stats().Leading && !first.Stats().Leading
	})
	polls := w.cloud.called("GET operations")
	eventually(t, "and polls the operation", func() bool { return w.cloud.called("GET operations") > polls+1 })
	w.cloud.finish("")
	eventually(t, "created", func() bool { return w.cloud.of("home") == "=1" && w.reconciled("home") })
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	if len(w.cloud.tokens) != 1 || w.cloud.created["home/"] != 1 {
		t.Errorf("created %d times, with %d tokens", w.cloud.created["home/"], len(w.cloud.tokens))
	}
}

func TestAnOperationThatFailsMoreThanOnceIsTriedAgainWithATokenOfItsOwnEachTime(t *testing.T) {
	w := apart(t, nil)
	w.cloud.set(func(c *cloud) { c.async = true })
	w.run(w.c)
	must(t, w.sites.Create(t.Context(), sized("home", 1)))
	for try := 1; try <= 3; try++ {
		eventually(t, "it is begun", func() bool { return w.cloud.called("POST disks") == try })
		eventually(t, "and told under way", func() bool { return w.intentOf("home") != nil })
		w.cloud.finish("no space")
		eventually(t, "the failure is told", func() bool { return w.c.Stats().Failures >= uint64(try) })
	}
	eventually(t, "it is begun again", func() bool { return w.cloud.called("POST disks") == 4 })
	w.cloud.finish("")
	eventually(t, "created", func() bool { return w.cloud.of("home") == "=1" && w.reconciled("home") })
	w.cloud.mu.Lock()
	defer w.cloud.mu.Unlock()
	if n := len(w.cloud.tokens); n != 4 {
		t.Errorf("%d tokens for four intents", n)
	}
}

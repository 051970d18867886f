package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestTheSecondReplicaWaitsWarmAndTakesOver when the first stops gracefully, with its next look at the lease.
func TestTheSecondReplicaWaitsWarmAndTakesOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites := [2]*entity.Client[*site]{w.sites(), w.away().sites()}
		var seen [2]calls
		var c [2]*Controller[*site]
		var r [2]*running
		for i := range 2 {
			var err error
			c[i], err = New("sites", sites[i], seen[i].reconciler(nil), slowRenewal)
			must(t, err)
			r[i] = w.run(c[i])
			if i == 0 {
				natstest.Eventually(t, "the first leads", func() bool { return c[0].Stats().Leading })
			}
		}
		w.make(sites[0], 5)
		w.settled(c[0], sites[0], 5)
		natstest.Eventually(t, "the second is warm", func() bool {
			all, err := sites[1].Lister().List(nil)
			return err == nil && len(all) == 5
		})
		if c[1].Stats().Leading || c[1].Stats().Reconciles > 0 {
			t.Fatalf("the second works while the first does: %+v", c[1].Stats())
		}
		r[0].halt()
		time.Sleep(slowRenewalLook)
		synctest.Wait()
		if !c[1].Stats().Leading {
			t.Error("the second does not lead")
		}
		must(t, sites[1].Create(ctx, newSite("after", "")))
		natstest.Eventually(t, "the second works", func() bool { return seen[1].count("after") > 0 })
		if seen[0].count("after") > 0 {
			t.Error("the first reconciled after its end")
		}
	})
}

// TestAReplicaThatLosesItsLeaseStopsBeforeTheNextBegins: the first is cut off from the server by a network that
// swallows everything. Its running reconcile is cancelled with ErrLeaseLost, the second takes over, and never do both
// work. When the network is back the first waits its turn.
func TestAReplicaThatLosesItsLeaseStopsBeforeTheNextBegins(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		timing := WithLeaseTiming(LeaseTiming{Duration: 8 * time.Second, RenewDeadline: 3 * time.Second,
			RetryPeriod: 100 * time.Millisecond})
		ctx := t.Context()
		proxy := natstest.StartProxy(t, w.server.URL())
		_, js := natstest.Connect(t, proxy.URL(), nats.PingInterval(500*time.Millisecond), nats.MaxPingsOutstanding(1))
		cutOff := &world{t: t, server: w.server, js: js}

		var active, both atomic.Int64
		cause := make(chan error, 1)
		begun := make(chan struct{})
		var once atomic.Bool
		enter := func() func() {
			if active.Add(1) > 1 {
				both.Add(1)
			}
			return func() { active.Add(-1) }
		}
		first, err := New("sites", cutOff.sites(), ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			defer enter()()
			if req.Key != "slow" || !once.CompareAndSwap(false, true) {
				return Result{}, nil
			}
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return Result{}, ctx.Err()
		}), timing)
		must(t, err)
		w.run(first)
		natstest.Eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		sites := w.sites()
		var seen calls
		second, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			defer enter()()
			return Result{}, nil
		}), timing)
		must(t, err)
		r := w.run(second)
		must(t, sites.Create(ctx, newSite("slow", "")))
		<-begun
		proxy.Blackhole()
		cut := time.Now()
		if got := <-cause; !errors.Is(got, ErrLeaseLost) {
			t.Errorf("the reconcile was cancelled with %v, want ErrLeaseLost", got)
		}
		if took := time.Since(cut); took > 3100*time.Millisecond || took < 3*time.Second {
			t.Errorf("it was cancelled after %v, want the deadline and less than a pause", took)
		}
		natstest.Eventually(t, "the second works on what the first left", func() bool { return seen.count("slow") > 0 })
		if took := time.Since(cut); took < 7900*time.Millisecond || took > 8440*time.Millisecond {
			t.Errorf("the second took over after %v, want 8 s and at most two pauses", took)
		}
		if both.Load() > 0 {
			t.Error("both worked at once")
		}
		if first.Stats().Leading {
			t.Error("the first still leads")
		}
		natstest.Eventually(t, "the first reports it", degradedNow(first, "connection to NATS"))

		proxy.Resume()
		natstest.Eventually(t, "the first is healthy again", func() bool { return len(first.Stats().Degraded) == 0 })
		if first.Stats().Leading || !second.Stats().Leading {
			t.Error("the first took the lease back")
		}
		r.halt()
		natstest.Eventually(t, "the first leads again", func() bool {
			s := first.Stats()
			return s.Leading && s.Terms > 1
		})
		must(t, sites.Create(ctx, newSite("later", "")))
		natstest.Eventually(t, "and works", func() bool { return !noRecord(t, sites, "later")() })
		if both.Load() > 0 {
			t.Error("both worked at once")
		}
	})
}

// TestTheBrakeTrustsDeletesThatTheStandbySaw: a mass delete that is evidenced stays so when another replica finishes
// it.
func TestTheBrakeTrustsDeletesThatTheStandbySaw(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		failing, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, errors.New("cannot")
			}
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		r := w.run(failing)
		w.make(sites, many)
		w.settled(failing, sites, many)
		standby := w.away().sites()
		var finish atomic.Bool
		next, err := New("sites", standby, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && !finish.Load() {
				return Result{RequeueAfter: time.Second}, nil
			}
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		w.run(next)
		natstest.Eventually(t, "the standby is warm", func() bool {
			all, err := standby.Lister().List(nil)
			return err == nil && len(all) == many
		})
		for i := range many {
			must(t, sites.Delete(ctx, siteName(i)))
		}
		natstest.Eventually(t, "the standby saw it", func() bool {
			for i := range many {
				if e := next.Explain(siteName(i)); !e.Deleting || e.Reasons != "" { // it would be due if it existed
					return false
				}
			}
			return next.Stats().Remembered == many
		})
		r.halt()
		time.Sleep(10 * time.Second) // longer than the brake takes to decide
		if n := next.Stats().Reconciles; n < 9*many {
			t.Errorf("it works on them: %d reconciles", n)
		}
		finish.Store(true)
		natstest.Eventually(t, "it finishes all", func() bool { return next.Stats().TornDown == many })
		if n := next.Stats().BrakeEngaged; n != 0 {
			t.Errorf("the brake engaged %d times", n)
		}
	})
}

package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// slowRenewal is a lease that is looked at often and runs out late.
var slowRenewal = WithLeaseTiming(LeaseTiming{
	Duration: 5 * time.Minute, RenewDeadline: time.Minute, RetryPeriod: slowRenewalRetry,
})

const (
	slowRenewalRetry = 100 * time.Millisecond
	// slowRenewalLook is the longest pause between two looks of a replica that waits for that lease.
	slowRenewalLook = slowRenewalRetry * 22 / 10
)

// stubborn is a reconciler that does not return when its context ends, until it is let go. It does so once, for
// "home".
type stubborn struct {
	once  sync.Once
	begun chan struct{}
	ended chan error // why its context ended
	free  func()
	let   chan struct{}
}

func newStubborn(t *testing.T) *stubborn {
	s := &stubborn{begun: make(chan struct{}), ended: make(chan error, 1), let: make(chan struct{})}
	s.free = sync.OnceFunc(func() { close(s.let) })
	t.Cleanup(s.free)
	return s
}

func (s *stubborn) reconcile(ctx context.Context, req Request) (Result, error) {
	if req.Key != "home" {
		return Result{}, nil
	}
	s.once.Do(func() {
		close(s.begun)
		<-ctx.Done()
		s.ended <- context.Cause(ctx)
		<-s.let
	})
	return Result{}, nil
}

// TestALeaseTakenByAnotherEndsTheTerm: the leader reads another's name in the lease and ends its term at once, not
// when the lease would run out. Running reconciles are cancelled with ErrLeaseLost. The next term begins when the
// lease is free.
func TestALeaseTakenByAnotherEndsTheTerm(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		home := newStubborn(t)
		home.free()
		c, err := New("sites", sites, ReconcilerFunc(home.reconcile), slowRenewal)
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)

		w.leaseTo("another", 5*time.Minute)
		wantLost(t, home)
		if c.Stats().Leading {
			t.Error("it still leads")
		}
		w.leaseTo("", time.Second)
		leadsAgain(t, c)
	})
}

// wantLost fails unless the holder's next renewal cancels the reconcile, because the lease is lost.
func wantLost(t *testing.T, s *stubborn) {
	t.Helper()
	time.Sleep(slowRenewalRetry)
	synctest.Wait()
	select {
	case cause := <-s.ended:
		if !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("the reconcile was cancelled with %v, want ErrLeaseLost", cause)
		}
	default:
		t.Error("the reconcile goes on")
	}
}

// leadsAgain fails unless a second term begins with the next look at a lease that is free now.
func leadsAgain(t *testing.T, c *Controller[*site]) {
	t.Helper()
	time.Sleep(slowRenewalLook)
	synctest.Wait()
	if s := c.Stats(); !s.Leading || s.Terms != 2 {
		t.Errorf("it leads: %v, in term %d; want the second", s.Leading, s.Terms)
	}
}

// TestALostTermWritesNothingMore: how far the stream of the primaries has come is kept at the end of a term that was
// not lost. Of a lost one the next holder may have kept more by then.
func TestALostTermWritesNothingMore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal)
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.make(sites, 3)
		w.settled(c, sites, 3)
		kept := func() uint64 {
			entry, err := w.kv("sites-status").Get(t.Context(), "_nagi.stream")
			must(t, err)
			return entry.Revision()
		}
		before := kept()
		w.leaseTo("another", 5*time.Minute)
		time.Sleep(time.Minute)
		w.leaseTo("", time.Second)
		leadsAgain(t, c)
		if now := kept(); now != before {
			t.Errorf("the stream was kept at revision %d after the term was lost, it was at %d", now, before)
		}
	})
}

// TestALoserDoesNotLeadWhileItsOldReconcileRuns, though the lease is free again and other workers are idle. A
// reconcile of the last term may still write, and no term may begin before it has returned.
func TestALoserDoesNotLeadWhileItsOldReconcileRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		home := newStubborn(t)
		c, err := New("sites", sites, ReconcilerFunc(home.reconcile), slowRenewal, WithWorkers(2))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)

		w.leaseTo("another", 5*time.Minute)
		wantLost(t, home)
		w.leaseTo("", time.Second)
		time.Sleep(stuckAfter - 2*slowRenewalRetry)
		if s := c.Stats(); s.Leading || s.Terms != 1 || s.Running != 1 {
			t.Errorf("it leads: %v, in term %d, and %d run", s.Leading, s.Terms, s.Running)
		}
		if reason := c.Stats().Degraded["end of the term"]; reason == nil || !strings.Contains(reason.Error(), `"home"`) {
			t.Errorf("degraded is %v, want that the end of the term waits for home", reason)
		}
		home.free()
		leadsAgain(t, c)
		isHealthy(t, c)
	})
}

// TestAReconcileThatNeverReturnsEndsRun after the lease was lost: this process could not apply for it again, and
// nobody would be told.
func TestAReconcileThatNeverReturnsEndsRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		home := newStubborn(t)
		c, err := New("sites", sites, ReconcilerFunc(home.reconcile), slowRenewal, WithGracePeriod(0))
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.Background()) }()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)
		w.leaseTo("another", 5*time.Minute)
		<-home.ended
		lost := time.Now()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), `"home"`) || time.Since(lost) != stuckAfter {
			t.Errorf("Run returned %v after %v, want the key, after %v", err, time.Since(lost), stuckAfter)
		}
		home.free()
	})
}

// TestAnOutageEndsNoRun: the term ends while records are written that nobody answers. They end by themselves, and no
// reconcile goes on.
func TestAnOutageEndsNoRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", onDisk)
		var attempts atomic.Int64
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			if attempts.Add(1)%2 == 0 { // each outcome is news, and recorded
				return Result{}, errors.New("every other time")
			}
			return Result{RequeueAfter: time.Millisecond}, nil
		}), WithBackoff(time.Millisecond, time.Millisecond), WithWorkers(4), WithGracePeriod(0),
			WithLeaseTiming(LeaseTiming{
				Duration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
			}))
		must(t, err)
		w.run(c) // which must not end before the test
		for i := range 20 {
			must(t, sites.Create(t.Context(), newSite(siteName(i), "")))
		}
		natstest.Eventually(t, "they churn", func() bool { return attempts.Load() > 100 })
		w.server.Stop()
		natstest.Eventually(t, "the term ends", func() bool { return !c.Stats().Leading })
		time.Sleep(stuckAfter + time.Second)
		if reason := c.Stats().Degraded["end of the term"]; reason != nil {
			t.Errorf("the end of the term waits for something: %v", reason)
		}
		must(t, w.server.Start())
		natstest.Eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms > 1 })
	})
}

// stuckAfter is how long reconciles and callbacks have to return after a lost lease.
const stuckAfter = 10 * time.Second

// TestACallbackThatNeverReturnsEndsRun, too, after the lease was lost.
func TestACallbackThatNeverReturnsEndsRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		let, called := make(chan struct{}), make(chan struct{}, 1)
		sites, pages := w.client("Site", "sites", quickCompare), w.pages()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), Owns(pages), slowRenewal, WithGracePeriod(0),
			WithOnBrake(func(BrakeState) {
				called <- struct{}{}
				<-let
			}))
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.Background()) }()
		w.make(sites, many)
		w.settled(c, sites, many)
		w.vanishing(0, many)
		receive(t, "the brake tells", called)
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "that is degraded", func() bool { return c.Stats().Degraded["end of the term"] != nil })
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "a callback has not returned") {
			t.Errorf("Run returned %v", err)
		}
		close(let)
	})
}

// TestAStopDuringTheEndOfATermEnds: the stop comes before the reconcile of the lost term is given up, and it
// returns after that.
func TestAStopDuringTheEndOfATermEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		home := newStubborn(t)
		c, err := New("sites", sites, ReconcilerFunc(home.reconcile), slowRenewal, WithGracePeriod(10*time.Second))
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)
		w.leaseTo("another", 5*time.Minute)
		<-home.ended
		time.Sleep(stuckAfter - 2*time.Second)
		stop()
		time.Sleep(5 * time.Second)
		home.free()
		receive(t, "Run returns", ended)
	})
}

// TestAStoppedReplicaKeepsItsLeaseWhileAReconcileRuns, even after the grace period. If it gave the lease back
// earlier, two replicas would reconcile one key at once.
func TestAStoppedReplicaKeepsItsLeaseWhileAReconcileRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		home := newStubborn(t)
		var active, both atomic.Int64
		counted := func(f ReconcilerFunc) Reconciler {
			return ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
				if req.Key == "home" {
					if active.Add(1) > 1 {
						both.Add(1)
					}
					defer active.Add(-1)
				}
				return f(ctx, req)
			})
		}
		first, err := New("sites", sites, counted(home.reconcile), slowRenewal, WithGracePeriod(0))
		must(t, err)
		r := w.run(first)
		natstest.Eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		var seen calls
		second, err := New("sites", w.away().sites(), counted(func(_ context.Context, req Request) (Result, error) {
			seen.add(req)
			return Result{}, nil
		}), slowRenewal)
		must(t, err)
		w.run(second)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)

		r.stop()
		if cause := <-home.ended; !errors.Is(cause, ErrStopped) {
			t.Errorf("the reconcile was cancelled with %v, want ErrStopped", cause)
		}
		time.Sleep(stuckAfter - time.Second)
		if second.Stats().Leading || seen.count("home") > 0 {
			t.Error("the second works while the first's reconcile runs")
		}
		home.free()
		r.halt()
		time.Sleep(slowRenewalLook)
		synctest.Wait()
		if !second.Stats().Leading || seen.count("home") == 0 {
			t.Error("the second does not work when the first has ended")
		}
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		if both.Load() > 0 {
			t.Error("both reconciled the key at once")
		}
	})
}

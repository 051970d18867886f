package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// slowRenewal is a lease that is looked at often and runs out late. A term that ends within the patience of a test
// did not end because the lease ran out.
var slowRenewal = WithLeaseTiming(LeaseTiming{
	Duration: 5 * time.Minute, RenewDeadline: time.Minute, RetryPeriod: 100 * time.Millisecond,
})

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
		within(t, "it is being reconciled", home.begun)

		w.leaseTo("another", 5*time.Minute)
		select {
		case cause := <-home.ended:
			if !errors.Is(cause, ErrLeaseLost) {
				t.Errorf("the reconcile was cancelled with %v, want ErrLeaseLost", cause)
			}
		case <-time.After(patience):
			t.Fatalf("the term did not end within %v", patience)
		}
		eventually(t, "it does not lead", func() bool { return !c.Stats().Leading })
		w.leaseTo("", time.Second)
		eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms == 2 })
	})
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
		eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.make(sites, 3)
		w.settled(c, sites, 3)
		kept := func() uint64 {
			entry, err := w.kv("sites-status").Get(t.Context(), "_nagi.stream")
			must(t, err)
			return entry.Revision()
		}
		before := kept()
		w.leaseTo("another", 5*time.Minute)
		eventually(t, "the term is over", func() bool { return !c.Stats().Leading })
		w.leaseTo("", time.Second)
		eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms == 2 })
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
		within(t, "it is being reconciled", home.begun)

		w.leaseTo("another", 5*time.Minute)
		if cause := <-home.ended; !errors.Is(cause, ErrLeaseLost) {
			t.Fatalf("the reconcile was cancelled with %v, want ErrLeaseLost", cause)
		}
		w.leaseTo("", time.Second)
		throughout(t, 2*time.Second, "it does not lead while its old reconcile runs", func() bool {
			s := c.Stats()
			return !s.Leading && s.Terms == 1 && s.Running == 1
		})
		eventually(t, "that is degraded, and names the key", func() bool {
			reason := c.Stats().Degraded["end of the term"]
			return reason != nil && strings.Contains(reason.Error(), `"home"`)
		})
		home.free()
		eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms == 2 })
		eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
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
		within(t, "it is being reconciled", home.begun)
		w.leaseTo("another", 5*time.Minute)
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), `"home"`) {
				t.Errorf("Run returned %v, want the key", err)
			}
		case <-time.After(patience):
			t.Error("Run goes on although it can do nothing")
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
		}), WithBackoff(time.Millisecond, time.Millisecond), WithGracePeriod(0), WithWorkers(4), WithLeaseTiming(LeaseTiming{
			Duration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
		}))
		must(t, err)
		w.run(c) // which must not end before the test
		for i := range 20 {
			must(t, sites.Create(t.Context(), newSite(siteName(i), "")))
		}
		eventually(t, "they churn", func() bool { return attempts.Load() > 100 })
		w.server.Stop()
		eventually(t, "the term ends", func() bool { return !c.Stats().Leading })
		throughout(t, stuckAfter, "no reconcile is said to go on", func() bool {
			reason := c.Stats().Degraded["end of the term"]
			return reason == nil || !strings.Contains(reason.Error(), "reconciles of")
		})
		must(t, w.server.Start())
		eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms > 1 })
	})
}

// stuckAfter is how long reconciles have to return after a lost lease, and a little more.
const stuckAfter = 12 * time.Second

// TestSoakACallbackThatNeverReturnsEndsRun, too, after the lease was lost.
func TestSoakACallbackThatNeverReturnsEndsRun(t *testing.T) {
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
		within(t, "the brake tells", called)
		w.leaseTo("another", 5*time.Minute)
		eventually(t, "that is degraded", func() bool { return c.Stats().Degraded["end of the term"] != nil })
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "a callback has not returned") {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(2 * patience):
			t.Error("Run goes on although it can do nothing")
		}
		close(let)
	})
}

// TestSoakAStopDuringTheEndOfATermEnds: the stop comes before the reconcile of the lost term is given up, and it
// returns after that.
func TestSoakAStopDuringTheEndOfATermEnds(t *testing.T) {
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
		within(t, "it is being reconciled", home.begun)
		w.leaseTo("another", 5*time.Minute)
		<-home.ended
		time.Sleep(8 * time.Second)
		stop()
		time.Sleep(5 * time.Second)
		home.free()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("Run does not return")
		}
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
		eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		var seen calls
		second, err := New("sites", w.away().sites(), counted(func(_ context.Context, req Request) (Result, error) {
			seen.add(req)
			return Result{}, nil
		}), slowRenewal)
		must(t, err)
		w.run(second)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		within(t, "it is being reconciled", home.begun)

		r.stop()
		if cause := <-home.ended; !errors.Is(cause, ErrStopped) {
			t.Errorf("the reconcile was cancelled with %v, want ErrStopped", cause)
		}
		throughout(t, 2*time.Second, "the second waits while the first's reconcile runs", func() bool {
			return !second.Stats().Leading && seen.count("home") == 0
		})
		leader := w.lease().HolderIdentity
		home.free()
		r.halt()
		if w.lease().HolderIdentity == leader { // nobody answered in time when it gave the lease back
			w.leaseTo("", time.Second)
		}
		eventually(t, "the second works", func() bool { return seen.count("home") > 0 })
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		if both.Load() > 0 {
			t.Error("both reconciled the key at once")
		}
	})
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var errUnwell = errors.New("the world is unwell")

// idle waits until no key is ready, in progress or delayed. What was told to the queue before is then done with.
func idle(t *testing.T, c *Controller[*site]) {
	t.Helper()
	natstest.Eventually(t, "nothing is ready, in progress or delayed", func() bool {
		n := c.engine.QueueCounts()
		return n.Ready == [queue.Bands]int{} && n.InProgress == 0 && n.Delayed == 0
	})
}

// pending waits until the next run of a key, which is held back, has all these reasons and no others.
func pending(t *testing.T, c *Controller[*site], key string, ops ...Operation) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%q is due with %v", key, operation.Of(ops...)), func() bool {
		return c.Explain(key).Reasons == operation.Of(ops...).String()
	})
}

// gate holds back the reconciles of a test until it lets them go.
type gate struct {
	entered chan Request
	leave   chan error
}

func newGate() *gate { return &gate{entered: make(chan Request), leave: make(chan error)} }

// Reconcile announces itself and then waits. It ends with the context too, so that a failed test stops.
func (g *gate) Reconcile(ctx context.Context, req Request) (Result, error) {
	select {
	case g.entered <- req:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	select {
	case err := <-g.leave:
		return Result{}, err
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

// enter waits for the next reconcile, which is then held.
func (g *gate) enter(t *testing.T) Request {
	t.Helper()
	return receive(t, "a reconcile begins", g.entered)
}

// receive takes a value that must come.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("unreachable")
	}
}

// shortGrace keeps a test that failed while it held a reconcile from waiting for it.
func shortGrace() Option { return WithGracePeriod(100 * time.Millisecond) }

// soak is how many times as long as usual the long tests take.
func soak() int {
	if n, err := strconv.Atoi(os.Getenv("NAGI_SOAK")); err == nil && n > 0 {
		return n
	}
	return 1
}

func TestHundredWorkersNeverReconcileOneKeyTwiceAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const keys = 10
		var running [keys]atomic.Int32
		var latest [keys]atomic.Int64 // the pages that the last reconcile saw
		var overlaps, most, now atomic.Int32
		key := func(i int) string { return fmt.Sprint("site-", i) }
		index := map[string]int{}
		for i := range keys {
			index[key(i)] = i
		}
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			i := index[req.Key]
			if running[i].Add(1) != 1 {
				overlaps.Add(1)
			}
			defer running[i].Add(-1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			s, err := sites.Lister().Get(req.Key)
			if err != nil {
				return Result{}, err
			}
			latest[i].Store(int64(s.Spec.Pages))
			select { // long enough for events to come meanwhile
			case <-time.After(rand.N(2 * time.Millisecond)):
			case <-ctx.Done():
			}
			switch rand.N(8) {
			case 0:
				return Result{}, errUnwell
			case 1:
				return Result{RequeueAfter: time.Millisecond}, nil
			}
			return Result{}, nil
		}), WithWorkers(100), WithBackoff(time.Millisecond, 2*time.Millisecond))
		must(t, err)
		w.run(c)
		ctx := t.Context()
		for i := range keys {
			must(t, sites.Create(ctx, newSite(key(i), "one")))
		}
		const rounds = 15
		var writers sync.WaitGroup
		for i := range keys {
			writers.Go(func() {
				for n := range rounds {
					if err := sites.Patch(ctx, key(i), fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n+1)); err != nil {
						t.Error(err)
					}
					for op := range OperationManual + 1 {
						c.Enqueue(key(i), op)
					}
					c.EnqueueAfter(key(i), OperationManual, rand.N(3*time.Millisecond))
				}
			})
		}
		writers.Wait()
		natstest.Eventually(t, "the last reconcile of each key saw its last state", func() bool {
			for i := range keys {
				if latest[i].Load() != int64(rounds) {
					return false
				}
			}
			return true
		})
		idle(t, c)
		if n := overlaps.Load(); n != 0 {
			t.Errorf("%d reconciles ran while another one of the same key did", n)
		}
		if most.Load() < 2 {
			t.Errorf("at most %d reconciles ran at once, so nothing was tested", most.Load())
		}
	})
}

func TestEventsDuringARunMakeExactlyOneMoreWithAllTheirReasons(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		g := newGate()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(g.Reconcile), Owns(pages), shortGrace(),
			Watches(pages, func(_ context.Context, p *page) ([]string, error) {
				if p.Name == "page-last" {
					return []string{"later"}, nil
				}
				return []string{"home"}, nil
			}))
		must(t, err)
		w.run(c)
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite("home", "one")))
		g.enter(t)
		for n := range 5 {
			must(t, sites.Patch(ctx, "home", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n+1)))
		}
		for _, title := range []string{"one", "two"} {
			p := newSite("page-"+title, title)
			c.SetOwner(p, "home")
			must(t, pages.Create(ctx, p))
		}
		c.Enqueue("home", OperationManual)
		c.Enqueue("home", OperationExternal)
		// the events of a bucket come in order
		must(t, sites.Create(ctx, newSite("later", "after all events of the other")))
		last := newSite("page-last", "after all events of the others")
		c.SetOwner(last, "later")
		must(t, pages.Create(ctx, last))
		pending(t, c, "later", OperationPut, OperationSecondary, OperationTertiary)
		pending(t, c, "home", OperationPut, OperationSecondary, OperationTertiary, OperationExternal, OperationManual)
		g.leave <- nil
		for range 2 {
			g.enter(t)
			g.leave <- nil
		}
		idle(t, c)
		want := []Operations{operation.Of(OperationPut),
			operation.Of(OperationPut, OperationSecondary, OperationTertiary, OperationExternal, OperationManual)}
		if got := seen.of("home"); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("reconciled for %v, want %v", got, want)
		}
	})
}

func TestLastOfPutDeleteAndPurgeWins(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g, shortGrace())
		must(t, err)
		w.run(c)
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite("home", "one")))
		g.enter(t)
		must(t, sites.Delete(ctx, "home"))
		pending(t, c, "home", OperationDelete)
		must(t, sites.Create(ctx, newSite("home", "two")))
		pending(t, c, "home", OperationPut)
		must(t, sites.Delete(ctx, "home", entity.Purge()))
		pending(t, c, "home", OperationPurge)
		g.leave <- nil
		if req := g.enter(t); req.Operations != operation.Of(OperationPurge) {
			t.Errorf("reconciled for %v, want Purge", req.Operations)
		}
		g.leave <- nil
		idle(t, c)
	})
}

func TestReasonsOfAFailedAttemptComeAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g, shortGrace(), WithBackoff(time.Millisecond, time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		g.enter(t)
		c.Enqueue("home", OperationExternal)
		g.leave <- errUnwell
		// Due at once for External; the retry of Put is overtaken, its reasons are not.
		if req := g.enter(t); req.Operations != operation.Of(OperationPut, OperationExternal) {
			t.Errorf("after an event during a failed attempt: %v, want Put|External", req.Operations)
		}
		for range 2 {
			g.leave <- errUnwell
			if req := g.enter(t); req.Operations != operation.Of(OperationPut, OperationExternal, OperationRetry) {
				t.Errorf("after a failed attempt: %v, want Put|External|Retry", req.Operations)
			}
		}
		g.leave <- nil
		idle(t, c)
		c.Enqueue("home", OperationManual)
		if req := g.enter(t); req.Operations != operation.Of(OperationManual) {
			t.Errorf("after a success: %v, want Manual", req.Operations)
		}
		g.leave <- nil
	})
}

func TestKeysEnqueuedBeforeRunAreReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		c.Enqueue("home", OperationManual)
		c.EnqueueAfter("away", OperationExternal, time.Millisecond)
		w.run(c)
		natstest.Eventually(t, "what was asked for before Run happens", func() bool {
			return seen.with("home", OperationManual) == 1 && seen.with("away", OperationExternal) == 1
		})
	})
}

func TestReconcileAllOnReachesEveryPrimaryWithEachTrigger(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		first, second, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		close(closed)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithReconcileAllOn(first), WithReconcileAllOn(closed),
			WithReconcileAllOn(second))
		must(t, err)
		w.run(c)
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			must(t, sites.Create(t.Context(), newSite(key, "one")))
		}
		each := func(n int) func() bool {
			return func() bool {
				for _, key := range keys {
					if seen.with(key, OperationManual) != n || seen.with(key, OperationPut) != 1 {
						return false
					}
				}
				return true
			}
		}
		natstest.Eventually(t, "all are reconciled", each(0))
		first <- struct{}{}
		natstest.Eventually(t, "all are reconciled on the first trigger", each(1))
		second <- struct{}{}
		natstest.Eventually(t, "all are reconciled on the second", each(2))
		close(first)
		second <- struct{}{}
		natstest.Eventually(t, "a trigger works after another was closed", each(3))
		idle(t, c)
		if !each(3)() {
			t.Errorf("a closed channel triggers: %v", seen.of("a"))
		}
	})
}

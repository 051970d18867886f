package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
)

func (w *world) namespaced() *entity.Client[*site] {
	w.t.Helper()
	return w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = true })
}

func siteIn(namespace, name string) *site {
	return &site{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// TestOneTenantsManyKeysDoNotDelayAnothersOne, of its namespace or of a group that a function names, and whether they
// were there first or change at that moment.
func TestOneTenantsManyKeysDoNotDelayAnothersOne(t *testing.T) {
	const many, work = 300, 10 * time.Millisecond
	for name, opts := range map[string][]Option{
		"of its namespace":                {WithFairness(ByNamespace)},
		"of its namespace, no records":    {WithFairness(ByNamespace), WithoutTeardown()},
		"of a group that a function says": {WithFairness(func(key string) string { return strings.ToUpper(key[:4]) })},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.namespaced()
				for n := range many {
					must(t, sites.Create(t.Context(), siteIn("large", fmt.Sprintf("site-%03d", n))))
				}
				must(t, sites.Create(t.Context(), siteIn("small", "listed")))
				var seen order
				c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
					time.Sleep(work)
					seen.add(req.Key)
					return Result{}, nil
				}), append(opts, WithWorkers(1))...)
				must(t, err)
				w.run(c)
				reconciled := func(key string) func() bool { return func() bool { return slices.Contains(seen.all(), key) } }
				natstest.Eventually(t, "the list is begun", func() bool { return len(seen.all()) >= 3 })
				if groups := c.Stats().Groups; groups != 2 && groups != 1 {
					t.Errorf("%d groups have keys", groups)
				}
				natstest.Eventually(t, "the small one's key is reconciled", reconciled("small/listed"))
				if at := slices.Index(seen.all(), "small/listed"); at > 3 {
					t.Errorf("it was number %d of %d", at+1, many+1)
				}
				for n := range many { // all of them change
					must(t, sites.Patch(t.Context(), fmt.Sprintf("large/site-%03d", n), []byte(`{"spec":{"pages":1}}`)))
				}
				natstest.Eventually(t, "they are due", func() bool { return c.Stats().Ready[0] >= many-10 })
				before := len(seen.all())
				must(t, sites.Create(t.Context(), siteIn("small", "changed")))
				natstest.Eventually(t, "the small one's change is reconciled", reconciled("small/changed"))
				// One runs, one has the turn, one is the oldest.
				if at := slices.Index(seen.all(), "small/changed") - before; at > 3 {
					t.Errorf("it was reconciled after %d of the other's", at)
				}
			})
		})
	}
}

// TestAGroupFunctionThatPanicsMakesOneGroup, and stops nothing.
func TestAGroupFunctionThatPanicsMakesOneGroup(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var calls calls
		c, err := New("sites", sites, calls.reconciler(nil), WithFairness(func(string) string { panic("no group") }))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled", func() bool { return calls.count("home") > 0 })
	})
}

// TestNoMoreThanTheRateIsReconciled, in each second of the first minute, retries, requeues and a teardown included.
func TestNoMoreThanTheRateIsReconciled(t *testing.T) {
	for name, opts := range map[string][]Option{"with records": nil, "without": {WithoutTeardown()}} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				const many = 40
				for n := range many {
					must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("site-%02d", n), "")))
				}
				var mu sync.Mutex
				var at []time.Time
				c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Now())
					switch req.Key {
					case "site-00":
						return Result{}, errUnwell
					case "site-01":
						return Result{RequeueAfter: time.Millisecond}, nil
					}
					return Result{}, nil
				}), append(opts, WithWorkers(8), WithRate(2, 5), WithBackoff(time.Millisecond, time.Millisecond))...)
				must(t, err)
				w.run(c)
				time.Sleep(30 * time.Second)
				must(t, sites.Delete(t.Context(), "site-02"))
				time.Sleep(30 * time.Second)
				waits := c.Stats().RateWaits
				mu.Lock()
				defer mu.Unlock()
				// Five at once, and two in each second: exactly, because there is always a key that is due.
				for n := 5; n < len(at); n++ {
					if want := at[0].Add(time.Duration(n-4) * time.Second / 2); !at[n].Equal(want) {
						t.Fatalf("reconcile %d began %v after the first, want %v", n, at[n].Sub(at[0]), want.Sub(at[0]))
					}
				}
				if len(at) < 120 || waits < 110 {
					t.Errorf("%d reconciles in a minute, of which %d waited for the rate", len(at), waits)
				}
			})
		})
	}
}

// TestWhatIsDoneBesideReconcilesCostsNoRate: neither a teardown that takes long after its reconcile nor records that are on
// their way keep the next key from its turn.
func TestWhatIsDoneBesideReconcilesCostsNoRate(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, k := newWorld(t), newCluster(t)
		var seen calls
		var deletes atomic.Int64
		slow := DeleterFunc(func(ctx context.Context, obj metav1.Object) error {
			time.Sleep(8 * time.Second)
			if deletes.Add(1) < 4 {
				return nil // it goes later
			}
			return k.Delete(ctx, obj)
		})
		c, sites, _ := w.runningSites(&seen, WithWorkers(8), WithRate(100, 1), OwnsKube(k.informer, WithDeleter(slow)))
		k.Add(w.ownedMap("settings", "away"))
		natstest.Eventually(t, "its owner has heard", func() bool { return seen.count("away") == 2 })
		must(t, sites.Delete(t.Context(), "away"))
		natstest.Eventually(t, "its teardown goes on", func() bool { return deletes.Load() > 0 })
		time.Sleep(time.Second)
		began := time.Now()
		must(t, sites.Create(t.Context(), newSite("other", "")))
		natstest.Eventually(t, "another is reconciled", func() bool { return seen.count("other") == 1 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waited for %v", took)
		}
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
	})
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 200
		w.make(w.sites(), many)
		proxy := natstest.StartProxy(t, w.server.URL())
		_, w.js = natstest.Connect(t, proxy.URL())
		var seen calls
		c, err := New("sites", w.sites(), seen.reconciler(nil), WithWorkers(8), WithRate(1000, 1))
		must(t, err)
		proxy.Tamper(natstest.Each(natstest.To("$KV.sites-status.*"), natstest.Fate{Late: 5 * time.Millisecond}))
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		began := time.Now()
		natstest.Eventually(t, "all are reconciled", func() bool { return len(seen.keys()) == many })
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("%d at 1,000 a second took %v", many, took)
		}
	})
}

// TestALiveChangeTakesTheNextTurnOfTheRate before the backlog, and Explain says what keys wait for.
func TestALiveChangeTakesTheNextTurnOfTheRate(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.namespaced()
		for n := range 20 {
			must(t, sites.Create(t.Context(), siteIn("old", fmt.Sprintf("site-%02d", n))))
		}
		var seen order
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			seen.add(req.Key)
			return Result{}, nil
		}), WithWorkers(4), WithRate(0.1, 1), WithFairness(ByNamespace))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "the first is reconciled", func() bool { return len(seen.all()) == 1 })
		first := time.Now()
		must(t, sites.Create(t.Context(), siteIn("new", "home")))
		natstest.Eventually(t, "the change is due", func() bool { return c.Stats().Ready[0] == 1 })
		e := c.Explain("new/home")
		const says = `(priority live), because of Put. With this priority 1 of its group "new" wait. The controller's ` +
			`rate of 0.1 reconciles a second is used up: the next key, of all that wait, is due at `
		if e.State != StateReady || e.Group != "new" || e.GroupKeys != 1 || !strings.Contains(e.Says, says) {
			t.Errorf("of the change it says %+v", e)
		}
		if due := e.RateAt.Sub(first).Round(time.Second); due != 10*time.Second {
			t.Errorf("the next key is said to be due in %v, want 10s", due)
		}
		natstest.Eventually(t, "the change is reconciled", func() bool { return len(seen.all()) == 2 })
		if keys := seen.all(); keys[1] != "new/home" || !time.Now().Round(time.Second).Equal(e.RateAt.Round(time.Second)) {
			t.Errorf("%v were reconciled until %v", keys, time.Now())
		}
		time.Sleep(time.Second) // what the turn of the rate let pass for their anchors is back
		waits := c.Explain("old/site-19")
		if waits.Says == "" || waits.Group != "old" || waits.GroupKeys != 19 {
			t.Errorf("of the backlog it says %+v", waits)
		}
	})
}

// TestTheUsersLimiterSaysWhenAKeyThatFailedIsDue: it is one of client-go's. It forgets with a success and a new
// revision, and what the reconciler or the policy chooses comes before it.
func TestTheUsersLimiterSaysWhenAKeyThatFailedIsDue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
		var mu sync.Mutex
		var at []time.Duration
		var began time.Time
		fails := []error{errUnwell, errUnwell, errUnwell, RetryAfter(errUnwell, time.Minute), errUnwell, nil,
			errUnwell, errUnwell, errUnwell, nil}
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if began.IsZero() {
				began = time.Now()
			}
			at = append(at, time.Since(began))
			return Result{}, fails[len(at)-1]
		}), WithRateLimiter(limiter), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		runs := func(n int) func() bool {
			return func() bool { mu.Lock(); defer mu.Unlock(); return len(at) == n }
		}
		time.Sleep(5 * time.Minute)
		natstest.Eventually(t, "it has succeeded", runs(6))
		const s = time.Second
		mu.Lock()
		if want := []time.Duration{0, s, 3 * s, 7 * s, 67 * s, 75 * s}; !slices.Equal(at, want) {
			t.Errorf("it was tried at %v, want %v", at, want)
		}
		began = time.Time{}
		mu.Unlock()
		if n := limiter.NumRequeues("home"); n != 0 {
			t.Errorf("after a success the limiter remembers %d failures", n)
		}
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":1}}`)))
		natstest.Eventually(t, "it has failed twice", runs(8))
		time.Sleep(s)
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":2}}`)))
		natstest.Eventually(t, "it has succeeded again", runs(10))
		mu.Lock()
		defer mu.Unlock()
		rounded := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) } // of when it was written
		if got := at[6:]; got[1] != s || rounded(got[2]) != 2*s || got[3] != got[2]+s {
			t.Errorf("later it was tried at %v, want 0s and 1s, and anew at 2s and 3s", got)
		}
	})
}

// panickingLimiter is one that panics.
type panickingLimiter struct {
	workqueue.TypedRateLimiter[string]
}

func (panickingLimiter) When(string) time.Duration { panic("no delay") }
func (panickingLimiter) Forget(string)             { panic("nothing to forget") }

func TestALimiterThatPanicsLeavesTheBackoff(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var calls calls
		c, err := New("sites", sites, calls.reconciler(func(context.Context, Request) (Result, error) {
			if len(calls.keys()) < 3 {
				return Result{}, errUnwell
			}
			return Result{}, nil
		}), WithRateLimiter(panickingLimiter{}), WithBackoff(time.Second, time.Second), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is tried three times", func() bool { return calls.count("home") == 3 })
	})
}

// TestThePriorityOfAResultIsThatOfTheRunThatFollows: of the retry, and of RequeueAfter. Without one a retry keeps the
// priority, and a requeue is of the backlog; the higher of two holds.
func TestThePriorityOfAResultIsThatOfTheRunThatFollows(t *testing.T) {
	const later = 20 * time.Millisecond
	low := Result{RequeueAfter: later, Priority: new(-7)}
	for _, test := range []struct {
		name   string
		opts   []Option
		result Result
		err    error
		during Priority // the key is enqueued with it while it runs; 0: it is not
		want   string
	}{
		{"a requeue", nil, Result{RequeueAfter: later}, nil, 0, "background"},
		{"a requeue with one", nil, low, nil, 0, "-7"},
		{"a retry", nil, Result{}, errUnwell, 0, "12"},
		{"a retry with one", nil, Result{Priority: new(-7)}, errUnwell, 0, "-7"},
		{"a retry with a policy", []Option{WithErrorPolicy(func(string, error, int) Result { return low })}, Result{},
			errUnwell, 0, "-7"},
		{"it is enqueued lower, too", nil, low, nil, PriorityBackground, "-7"},
		{"it is enqueued higher, too", nil, low, nil, 99, "99"},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				must(t, sites.Create(t.Context(), newSite("home", "")))
				must(t, sites.Create(t.Context(), newSite("busy", "")))
				g, first := newGate(), true
				var c *Controller[*site]
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					if req.Key == "busy" {
						return g.Reconcile(ctx, req)
					}
					if !req.Operations.Has(OperationManual) || !first {
						return Result{}, nil
					}
					first = false
					if test.during != 0 {
						c.EnqueueWith("home", OperationResync, EnqueueOptions{Priority: test.during})
					}
					c.EnqueueWith("busy", OperationManual, EnqueueOptions{Priority: 100})
					return test.result, test.err
				}), append(test.opts, WithWorkers(1), WithResyncInterval(0), shortGrace(),
					WithBackoff(later, later))...)
				must(t, err)
				w.run(c)
				g.enter(t)
				g.leave <- nil
				idle(t, c)
				c.EnqueueWith("home", OperationManual, EnqueueOptions{Priority: 12})
				g.enter(t) // busy has the worker
				natstest.Eventually(t, "it is due again", func() bool { return !c.Explain("home").ReadySince.IsZero() })
				if e := c.Explain("home"); e.Priority != test.want || e.State != StateReady {
					t.Errorf("it is %s with priority %s, want %s", e.State, e.Priority, test.want)
				}
				g.leave <- nil
			})
		})
	}
}

// TestEnqueueWithAPriorityGoesInItsPlace, also after a delay.
func TestEnqueueWithAPriorityGoesInItsPlace(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		prios := map[string]Priority{"most": 1 << 40, "high": 5, "live": PriorityLive, "low": -1, "secondary": PrioritySecondary,
			"background": PriorityBackground, "least": -1 << 40}
		keys := []string{"most", "high", "live", "low", "secondary", "background", "least"}
		for _, key := range append(keys, "busy") {
			must(t, sites.Create(t.Context(), newSite(key, "")))
		}
		g := newGate()
		var seen order
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Key == "busy" {
				return g.Reconcile(ctx, req)
			}
			seen.add(req.Key)
			return Result{}, nil
		}), WithWorkers(1), WithResyncInterval(0), shortGrace())
		must(t, err)
		w.run(c)
		g.enter(t)
		g.leave <- nil
		idle(t, c)
		before := len(seen.all())
		c.Enqueue("busy", OperationManual)
		g.enter(t)
		for key, prio := range prios {
			c.EnqueueWith(key, OperationManual, EnqueueOptions{Priority: prio, After: time.Second})
		}
		if n := undone(c.engine.QueueCounts()); n != 1 {
			t.Errorf("%d keys are due before their delay is over", n-1)
		}
		natstest.Eventually(t, "they are due", func() bool { return undone(c.engine.QueueCounts()) == len(keys)+1 })
		if ready := c.engine.QueueCounts().Ready; ready != [queue.Bands]int{2, 2, 3} {
			t.Errorf("of the bands %v wait", ready)
		}
		g.leave <- nil
		idle(t, c)
		got := slices.DeleteFunc(seen.all()[before:], func(key string) bool { return key == "busy" })
		oldest := slices.IndexFunc(got, func(key string) bool { return slices.Index(keys, key) != slices.Index(got, key) })
		if oldest >= 0 { // one hand-out in eight is the oldest: take it out of both
			odd := got[oldest]
			without := func(s []string) []string {
				return slices.DeleteFunc(slices.Clone(s), func(key string) bool { return key == odd })
			}
			got, keys = without(got), without(keys)
		}
		if !slices.Equal(got, keys) {
			t.Errorf("they went as %v, want %v", got, keys)
		}
	})
}

// TestTheOptionsOfTheQueueRefuseWhatTheyCannotHonour, and all at once.
func TestTheOptionsOfTheQueueRefuseWhatTheyCannotHonour(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, opt := range []Option{
		WithFairness(nil), WithRate(0, 1), WithRate(-1, 1), WithRate(nan, 1), WithRate(1, 0), WithRate(1e-9, 1),
		WithRate(1, 1<<62), WithRateLimiter(nil), WithRateLimiter((*panickingLimiter)(nil)),
	} {
		if _, err := applyOptions([]Option{opt, nil}); err == nil || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("%v, want one error beside that of nil", err)
		}
	}
	if _, err := applyOptions([]Option{WithRate(1e12, 1), WithRate(1.0/(24*3600), 10), WithFairness(ByNamespace)}); err != nil {
		t.Error(err)
	}
	for ours, queues := range map[Priority]queue.Priority{
		PriorityLive: queue.Live, PrioritySecondary: queue.Secondary, PriorityBackground: queue.Background,
		1 << 40: 1<<31 - 1, -1 << 40: -1 << 31,
	} {
		if got := queuePriority(ours); got != queues {
			t.Errorf("%d is %v in the queue, want %v", ours, got, queues)
		}
	}
	for key, want := range map[string]string{"shop/home": "shop", "home": "", "a/b/c": ""} {
		if got := ByNamespace(key); got != want {
			t.Errorf("%q is of %q, want %q", key, got, want)
		}
	}
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var errHopeless = errors.New("no retry can mend this")

// parkHome runs a controller over sites and pages whose site "home" is parked by its first reconcile.
func parkHome(
	t *testing.T, w *world, seen *calls, opts ...Option,
) (*Controller[*site], *entity.Client[*site], *entity.Client[*page]) {
	t.Helper()
	sites, pages := w.sites(), w.pages()
	r := func(_ context.Context, req Request) (Result, error) {
		if req.Key != "home" {
			return Result{}, nil
		}
		return Result{RequeueAfter: time.Millisecond}, fmt.Errorf("wrapped: %w", TerminalError(errHopeless))
	}
	opts = append([]Option{Owns(pages), WithBackoff(time.Millisecond, time.Millisecond)}, opts...)
	c, err := New("sites", sites, seen.reconciler(r), opts...)
	must(t, err)
	w.run(c)
	must(t, sites.Create(t.Context(), newSite("home", "one")))
	must(t, sites.Create(t.Context(), newSite("other", "one")))
	natstest.Eventually(t, "the key is parked", func() bool { return c.Stats().Parked == 1 && seen.count("other") > 0 })
	return c, sites, pages
}

func TestTerminalErrorParksTheKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen calls
		var told results
		c, sites, _ := parkHome(t, w, &seen, WithOnResult(told.add),
			WithErrorPolicy(func(string, error, int) Result {
				t.Error("the error policy is asked about a terminal error")
				return Result{}
			}))
		idle(t, c)
		if n := seen.count("home"); n != 1 {
			t.Errorf("%d runs, want one", n)
		}
		s := c.Stats()
		if s.Failures != 1 || s.Terminals != 1 || s.Failing != 0 {
			t.Errorf("%d failures, %d terminals, %d failing; want 1, 1, 0", s.Failures, s.Terminals, s.Failing)
		}
		for _, r := range told.all() {
			if r.Key == "home" && (!errors.Is(r.Err, errHopeless) || !r.NextDue.IsZero()) {
				t.Errorf("told error %v, next due %v", r.Err, r.NextDue)
			}
		}
		record, err := sites.Record(t.Context(), "home")
		must(t, err)
		if len(record.Conditions) != 1 || record.Conditions[0].Reason != entity.ReasonTerminal ||
			!strings.Contains(record.Conditions[0].Message, errHopeless.Error()) {
			t.Errorf("conditions %v, want Terminal with the error", record.Conditions)
		}
	})
}

func TestTerminalErrorOfNothingIsNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		if err := TerminalError(nil); err != nil {
			t.Error(err)
		}
	})
}

// TestParkedKeyIsNotWokenByTimeAlone: neither a resync nor a retry tells that anything has changed.
func TestParkedKeyIsNotWokenByTimeAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen calls
		c, _, _ := parkHome(t, w, &seen, WithResyncInterval(time.Second))
		for _, op := range []Operation{OperationResync, OperationRetry, OperationRequeue} {
			c.Enqueue("home", op)
		}
		resyncs := seen.with("other", OperationResync)
		natstest.Eventually(t, "the other key had two resyncs, so this one had them too", func() bool {
			return seen.with("other", OperationResync) > resyncs+2
		})
		if n := seen.count("home"); n != 1 || c.Stats().Parked != 1 {
			t.Errorf("%d runs of the parked key, want one: %v", n, seen.of("home"))
		}
	})
}

func TestParkedKeyIsWoken(t *testing.T) {
	var trigger chan struct{}
	for _, test := range []struct {
		by   string
		wake func(context.Context, *Controller[*site], *entity.Client[*site]) error
		op   Operation
		gone bool
	}{
		{"a new revision", func(ctx context.Context, _ *Controller[*site], sites *entity.Client[*site]) error {
			return sites.Patch(ctx, "home", []byte(`{"spec":{"pages":1}}`))
		}, OperationPut, false},
		{"its deletion", func(ctx context.Context, _ *Controller[*site], sites *entity.Client[*site]) error {
			return sites.Delete(ctx, "home")
		}, OperationDelete, true},
		{"Manual", func(_ context.Context, c *Controller[*site], _ *entity.Client[*site]) error {
			c.Enqueue("home", OperationManual)
			return nil
		}, OperationManual, false},
		{"Manual after a delay", func(_ context.Context, c *Controller[*site], _ *entity.Client[*site]) error {
			c.EnqueueAfter("home", OperationManual, time.Millisecond)
			return nil
		}, OperationManual, false},
		{"a trigger for all", func(context.Context, *Controller[*site], *entity.Client[*site]) error {
			trigger <- struct{}{}
			return nil
		}, OperationManual, false},
	} {
		t.Run(test.by, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var seen calls
				trigger = make(chan struct{})
				c, sites, _ := parkHome(t, w, &seen, WithReconcileAllOn(trigger))
				must(t, test.wake(t.Context(), c, sites))
				natstest.Eventually(t, "the parked key runs again", func() bool {
					return seen.with("home", test.op) > 0 && seen.count("home") == 2
				})
				natstest.Eventually(t, "and is parked again", func() bool { return c.Stats().Parked == 1 })
				idle(t, c)
				if n := seen.count("home"); n != 2 {
					t.Errorf("%d runs, want two: %v", n, seen.of("home"))
				}
			})
		})
	}
}

func TestParkedKeyIsWokenByARestart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		for n := 1; n <= 2; n++ {
			c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
				return Result{}, TerminalError(errHopeless)
			}))
			must(t, err)
			r := w.run(c)
			if n == 1 {
				must(t, sites.Create(t.Context(), newSite("home", "one")))
			}
			natstest.Eventually(t, "the key is parked", func() bool {
				return seen.count("home") == n && c.Stats().Parked == 1
			})
			r.halt()
		}
	})
}

func TestParkedTeardownIsWokenWhenTheDocumentIsBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, TerminalError(errHopeless)
			}
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("home") == 1 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown is parked", func() bool { return c.Stats().Parked == 1 })
		c.Enqueue("home", OperationResync)
		idle(t, c)
		if n := seen.count("home"); n != 2 {
			t.Errorf("%d runs, want two: %v", n, seen.of("home"))
		}
		c.Enqueue("home", OperationSecondary) // as of something that it owned
		natstest.Eventually(t, "an event wakes the teardown", func() bool { return seen.count("home") == 3 })
		natstest.Eventually(t, "it is parked again", func() bool { return c.Stats().Parked == 1 })
		must(t, sites.Create(t.Context(), newSite("home", "two")))
		natstest.Eventually(t, "it is reconciled again", func() bool { return seen.with("home", OperationPut) == 2 })
		natstest.Eventually(t, "nothing is parked", func() bool { return c.Stats().Parked == 0 })
	})
}

func TestErrorPolicyDecidesWhenAFailedKeyIsDue(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		type asked struct {
			key     string
			err     error
			attempt int
		}
		questions := make(chan asked, 10)
		var seen calls
		var told results
		c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
			return Result{}, errUnwell
		}),
			WithBackoff(time.Millisecond, time.Millisecond), WithOnResult(told.add),
			WithErrorPolicy(func(key string, err error, attempt int) Result {
				questions <- asked{key, err, attempt}
				if attempt < 3 {
					return Result{} // the default: soon
				}
				return Result{RequeueAfter: time.Hour}
			}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		for n := 1; n <= 3; n++ {
			q := receive(t, "a question", questions)
			if q.key != "home" || !errors.Is(q.err, errUnwell) || q.attempt != n {
				t.Errorf("asked about %q, %v, attempt %d; want home, %v, %d", q.key, q.err, q.attempt, errUnwell, n)
			}
		}
		natstest.Eventually(t, "three results", func() bool { return len(told.all()) == 3 })
		if due := time.Until(told.all()[2].NextDue); due < 59*time.Minute || due > time.Hour {
			t.Errorf("next due in %v, want the hour that the policy said", due)
		}
		delayed(t, c, 1)
		if n := seen.count("home"); n != 3 {
			t.Errorf("%d runs, want three", n)
		}
	})
}

func TestResultsAreToldInOrderPerKeyBeforeTheKeyRunsAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const keys = 8
		const idling, running, ended = 0, 1, 2
		state := map[string]*atomic.Int32{}
		for i := range keys {
			state[fmt.Sprint("site-", i)] = &atomic.Int32{}
		}
		expect := func(key string, from, to int32) {
			if !state[key].CompareAndSwap(from, to) {
				t.Errorf("%q went from state %d to %d, want from %d", key, state[key].Load(), to, from)
			}
		}
		var mu sync.Mutex
		requests, reported := map[string][]Operations{}, map[string][]ReconcileResult{}
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			expect(req.Key, idling, running)
			defer expect(req.Key, running, ended)
			mu.Lock()
			requests[req.Key] = append(requests[req.Key], req.Operations)
			mu.Unlock()
			switch rand.N(4) {
			case 0:
				return Result{}, errUnwell
			case 1:
				return Result{RequeueAfter: time.Millisecond}, nil
			}
			return Result{}, nil
		}), WithWorkers(100), WithBackoff(time.Millisecond, time.Millisecond), WithOnResult(func(r ReconcileResult) {
			mu.Lock()
			reported[r.Key] = append(reported[r.Key], r)
			mu.Unlock()
			expect(r.Key, ended, idling)
		}))
		must(t, err)
		w.run(c)
		for key := range state {
			must(t, sites.Create(t.Context(), newSite(key, "one")))
		}
		// Its creation is a change of a primary, which starts the count of failed attempts anew.
		natstest.Eventually(t, "the creation of all has been seen", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for key := range state {
				if !slices.ContainsFunc(requests[key], func(ops Operations) bool { return ops.Has(OperationPut) }) {
					return false
				}
			}
			return true
		})
		for range 100 * soak() {
			for key := range state {
				c.Enqueue(key, OperationManual)
			}
			must(t, sites.Patch(t.Context(), "site-0", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, rand.N(1000))))
		}
		idle(t, c)
		mu.Lock()
		defer mu.Unlock()
		for key := range state {
			var told []Operations
			failed := 0 // in a row
			for i, r := range reported[key] {
				told = append(told, r.Operations)
				if r.Attempt < 1 || r.Attempt > failed+1 || key != "site-0" && r.Attempt != failed+1 {
					t.Errorf("%q result %d: attempt %d after %d failures", key, i, r.Attempt, failed)
				}
				failed = r.Attempt
				if r.Err == nil {
					failed = 0
				}
				if r.Duration < 0 || r.Err != nil && r.NextDue.IsZero() {
					t.Errorf("%q result %d: duration %v, error %v, next due %v", key, i, r.Duration, r.Err, r.NextDue)
				}
			}
			if !slices.Equal(told, requests[key]) {
				t.Errorf("%q was reconciled for %v, told were %v", key, requests[key], told)
			}
		}
	})
}

package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// delayed waits until the queue holds that many delays.
func delayed(t *testing.T, c *Controller[*site], n int) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%d delays are pending", n), func() bool { return c.Stats().Delayed == n })
}

// results records what WithOnResult was told.
type results struct{ toldOf[ReconcileResult] }

// attempts are the numbers of the attempts, in order.
func (r *results) attempts() []int {
	var numbers []int
	for _, result := range r.all() {
		numbers = append(numbers, result.Attempt)
	}
	return numbers
}

func TestDelayedKeysAreNeitherEarlyNorLate(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const delay = 50 * time.Millisecond
		type call struct {
			ops Operations
			at  time.Time
		}
		ran := make(chan call, 10)
		c, err := New("sites", w.sites(), ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			ran <- call{req.Operations, time.Now()}
			if req.Operations.Has(OperationManual) {
				return Result{RequeueAfter: delay}, nil
			}
			if !req.Operations.Has(OperationRetry) {
				return Result{}, errUnwell
			}
			return Result{}, nil
		}), WithoutTeardown(), WithBackoff(delay, delay))
		must(t, err)
		w.run(c)
		before := time.Now()
		c.EnqueueAfter("home", OperationManual, delay)
		for _, op := range []Operation{OperationManual, OperationRequeue, OperationRetry} {
			next := receive(t, fmt.Sprint("a run with ", op), ran)
			if !next.ops.Has(op) {
				t.Fatalf("reconciled for %v, want %v", next.ops, op)
			}
			if waited := next.at.Sub(before); waited != delay {
				t.Errorf("the run with %v came after %v, want %v", op, waited, delay)
			}
			before = next.at
		}
	})
}

func TestBackoffResetsWhenThePrimaryChangesAndWhenAnAttemptSucceeds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		var told results
		c, err := New("sites", sites, g, WithOnResult(told.add), WithBackoff(time.Millisecond, time.Millisecond),
			shortGrace())
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		fail := func(n int) {
			for range n {
				g.enter(t)
				g.leave <- errUnwell
			}
		}
		fail(3)
		g.enter(t)
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"pages":1}}`)))
		pending(t, c, "home", OperationPut)
		g.leave <- errUnwell // of the new revision, as far as can be told
		fail(1)
		g.enter(t)
		g.leave <- nil
		idle(t, c)
		if n := c.Stats().Failing; n != 0 {
			t.Errorf("%d keys fail after a success", n)
		}
		c.Enqueue("home", OperationManual)
		fail(2)
		g.enter(t)
		g.leave <- nil
		idle(t, c)
		want := []int{1, 2, 3, 4, 2, 3, 1, 2, 3}
		if got := told.attempts(); !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
	})
}

func TestEventsDoNotInflateTheBackoff(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		g := newGate()
		var told results
		c, err := New("sites", sites, g, Owns(pages), WithOnResult(told.add),
			WithBackoff(time.Millisecond, time.Millisecond), shortGrace())
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		g.enter(t)
		for n := range 20 {
			p := newSite(fmt.Sprint("page-", n), "one")
			c.SetOwner(p, "home")
			must(t, pages.Create(t.Context(), p))
			c.Enqueue("home", OperationExternal)
			c.EnqueueAfter("home", OperationManual, time.Microsecond)
		}
		g.leave <- errUnwell
		g.enter(t)
		idleBut := func() bool { return c.engine.QueueCounts().Delayed == 0 && c.Stats().Failing == 1 }
		natstest.Eventually(t, "all events have come", idleBut)
		g.leave <- errUnwell
		g.enter(t)
		g.leave <- errUnwell
		natstest.Eventually(t, "three attempts", func() bool { return len(told.all()) >= 3 })
		if got := told.attempts()[:3]; !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("attempts %v, want 1, 2, 3", got)
		}
	})
}

func TestRetriesBackOffExponentiallyUpToTheMaximum(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const shortest, longest = 10 * time.Millisecond, 80 * time.Millisecond
		ran := make(chan time.Time, 10)
		promised := make(chan time.Time, 10)
		c, err := New("sites", w.sites(), ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			ran <- time.Now()
			if len(ran) > 6 {
				return Result{}, nil
			}
			return Result{}, errUnwell
		}), WithoutTeardown(), WithBackoff(shortest, longest),
			WithOnResult(func(r ReconcileResult) {
				if r.Err != nil {
					promised <- r.NextDue
				}
			}))
		must(t, err)
		w.run(c)
		c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "seven attempts", func() bool { return len(ran) == 7 })
		before := <-ran
		ceiling := shortest
		for n := 1; n <= 6; n++ {
			ceiling = min(2*ceiling, longest)
			at, due := <-ran, <-promised
			if waited := at.Sub(before); waited < ceiling/2 || waited > ceiling || !at.Equal(due) {
				t.Errorf("attempt %d came %v after the one before, want %v to %v; it was due at %v, and came at %v", n+1,
					waited, ceiling/2, ceiling, due, at)
			}
			before = at
		}
	})
}

func TestRequeueAfterIsNotRateLimited(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		var told results
		c, err := New("sites", sites, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
			if seen.count(req.Key) == 30 {
				return Result{}, nil
			}
			return Result{RequeueAfter: time.Millisecond}, nil
		}), WithOnResult(told.add), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "thirty runs", func() bool { return seen.count("home") == 30 })
		idle(t, c)
		if n := seen.with("home", OperationRequeue); n != 29 {
			t.Errorf("%d runs with Requeue, want 29", n)
		}
		for i, r := range told.all() {
			if last := i == 29; r.Attempt != 1 || r.Err != nil || r.NextDue.IsZero() != last {
				t.Errorf("run %d: attempt %d, error %v, next due %v", i+1, r.Attempt, r.Err, r.NextDue)
			}
		}
	})
}

func TestErrorBeatsRequeueAfter(t *testing.T) {
	for _, requeue := range []time.Duration{time.Hour, time.Nanosecond} {
		t.Run(requeue.String(), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var seen calls
				var told results
				c, err := New("sites", sites, seen.reconciler(func(context.Context, Request) (Result, error) {
					return Result{RequeueAfter: requeue}, errUnwell
				}), WithOnResult(told.add), WithBackoff(30*time.Minute, 30*time.Minute))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				delayed(t, c, 1)
				natstest.Eventually(t, "the failure is recorded", func() bool {
					r, err := sites.Record(t.Context(), "home")
					return err == nil && len(r.Conditions) == 1 && r.Conditions[0].Reason == entity.ReasonRetrying
				})
				natstest.Eventually(t, "it is reported", func() bool { return len(told.all()) == 1 })
				due := time.Until(told.all()[0].NextDue)
				if n := seen.count("home"); n != 1 || due < 29*time.Minute || due > 30*time.Minute {
					t.Errorf("after %d runs the next is due in %v; want one, and the backoff of 30 minutes", n, due)
				}
			})
		})
	}
}

func TestTeardownDoesNotTakeTheUsersDelayAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the first run", func() bool { return seen.count("home") == 1 })
		idle(t, c)
		c.EnqueueAfter("home", OperationManual, time.Second)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown", func() bool { return c.Stats().TornDown >= 1 })
		natstest.Eventually(t, "the delay after it", func() bool { return seen.with("home", OperationManual) == 1 })
		idle(t, c)
	})
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestStopStartsNothingNewAndLetsRunningReconcilesFinishWithALiveContext(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []Option
	}{
		{"default grace", nil},
		{"without limit", []Option{WithGracePeriod(-1)}},
		{"without records", []Option{WithoutTeardown()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				for n := range 40 {
					must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("site-%02d", n), "one")))
				}
				entered, leave := make(chan string, 100), make(chan struct{})
				var started atomic.Int32
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					started.Add(1)
					entered <- req.Key
					<-leave
					if err := ctx.Err(); err != nil {
						return Result{}, fmt.Errorf("in the grace period: %w", err)
					}
					return Result{}, sites.Patch(ctx, req.Key, []byte(`{"spec":{"title":"finished"}}`))
				}), append(test.opts, WithWorkers(2))...)
				must(t, err)
				r := w.run(c)
				keys := []string{receive(t, "a reconcile", entered), receive(t, "another", entered)}
				natstest.Eventually(t, "many more wait", func() bool {
					n := c.engine.QueueCounts()
					return n.Ready[0]+n.Ready[1] > 20
				})
				r.stop()
				close(leave) // at once: nobody gave Run the time to notice
				r.halt()
				if n := started.Load(); n != 2 {
					t.Errorf("%d reconciles started, want only the two from before the stop", n)
				}
				for _, key := range keys {
					s, err := sites.Get(t.Context(), key)
					must(t, err)
					if s.Spec.Title != "finished" {
						t.Errorf("%q did not finish its work", key)
					}
				}
				c.Enqueue("site-00", OperationManual)
				c.EnqueueAfter("site-00", OperationManual, time.Hour)
				if s := c.Stats(); s.Reconciles != 2 || s.Failures != 0 || s.Running != 0 || s.Delayed != 0 || s.Leading {
					t.Errorf("after Run: %+v", s)
				}
			})
		})
	}
}

// TestAMapperThatNeverReturnsDoesNotKeepRunFromReturning, but Run says so. In real time: client-go waits for the mapper
// with a lock held, for which others wait.
func TestAMapperThatNeverReturnsDoesNotKeepRunFromReturning(t *testing.T) {
	w := newWorld(t)
	themes := w.client("Theme", "themes")
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	c, err := New("sites", w.sites(), new(calls).reconciler(nil),
		Watches(themes, func(context.Context, *theme) ([]string, error) {
			entered <- struct{}{}
			<-leave
			return nil, nil
		}))
	must(t, err)
	t.Cleanup(func() { themes.Close() }) // it waits for the mapper
	r := w.run(c)
	natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
	must(t, themes.Create(t.Context(), newSite("dark", "one")))
	<-entered
	t.Cleanup(func() { close(leave) })
	r.stop()
	says(t, r.failed(), `controller "sites"`, "did not return", "left behind")
}

func TestNoReconcileStartsOnceTheContextHasEnded(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithoutTeardown()}} {
		t.Run(fmt.Sprint(len(opts), " options"), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, stop := context.WithCancel(t.Context())
				var started, late atomic.Int32
				c, err := New("sites", w.sites(), ReconcilerFunc(func(context.Context, Request) (Result, error) {
					if ctx.Err() != nil {
						late.Add(1)
					}
					started.Add(1)
					stop() // and the worker goes for the next key before Run can notice
					return Result{}, nil
				}), opts...)
				must(t, err)
				for n := range 50 {
					c.Enqueue(fmt.Sprint("site-", n), OperationManual)
				}
				must(t, c.Run(ctx))
				if started.Load() != 1 || late.Load() != 0 {
					t.Errorf("%d reconciles, %d of them after the end; want one, and none", started.Load(), late.Load())
				}
			})
		})
	}
}

func TestWhatIsFinishedInTheGracePeriodIsRecorded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g)
		must(t, err)
		r := w.run(c)
		s := newSite("home", "one")
		must(t, sites.Create(t.Context(), s))
		g.enter(t)
		r.stop()
		natstest.Eventually(t, "the stop is noticed", func() bool { return c.Explain("away").State == StateStopped })
		g.leave <- nil
		r.halt()
		record, err := sites.Record(t.Context(), "home")
		must(t, err)
		if fmt.Sprint(record.ObservedRevision) != s.ResourceVersion || len(record.Conditions) != 1 ||
			record.Conditions[0].Reason != "Synced" {
			t.Errorf("record: observed %d, conditions %v; want revision %s, Synced", record.ObservedRevision,
				record.Conditions, s.ResourceVersion)
		}
	})
}

func TestGracePeriodThatIsOverCancelsTheContextWithItsCause(t *testing.T) {
	for _, grace := range []time.Duration{0, 200 * time.Millisecond} {
		for _, opts := range [][]Option{nil, {WithoutTeardown()}} {
			t.Run(fmt.Sprint(grace, " and ", len(opts), " options"), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					entered, causes := make(chan struct{}), make(chan error, 1)
					c, err := New("sites", w.sites(), ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
						close(entered)
						<-ctx.Done()
						causes <- context.Cause(ctx)
						return Result{}, ctx.Err()
					}), append(opts, WithGracePeriod(grace))...)
					must(t, err)
					c.Enqueue("home", OperationManual)
					r := w.run(c)
					receive(t, "a reconcile", entered)
					stopped := time.Now()
					r.stop()
					if cause := receive(t, "its context ends", causes); !errors.Is(cause, ErrStopped) {
						t.Errorf("cause %v, want %v", cause, ErrStopped)
					}
					if took := time.Since(stopped); took != grace {
						t.Errorf("cancelled after %v, the grace period is %v", took, grace)
					}
					r.halt() // that it was cancelled is no error of Run
				})
			})
		}
	}
}

func TestNegativeGracePeriodWaitsWithoutLimit(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		causes := make(chan error, 1)
		c, err := New("sites", w.sites(), ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			close(entered)
			<-leave
			causes <- context.Cause(ctx)
			return Result{}, nil
		}), WithGracePeriod(-1))
		must(t, err)
		c.Enqueue("home", OperationManual)
		r := w.run(c)
		receive(t, "a reconcile", entered)
		r.stop()
		time.Sleep(time.Hour)
		select {
		case <-r.done:
			t.Error("Run did not wait")
		default:
		}
		close(leave)
		if cause := <-causes; cause != nil {
			t.Errorf("the context ended: %v", cause)
		}
		r.halt()
	})
}

func TestReconcileThatIgnoresItsContextIsLeftBehindAndRunSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		defer close(leave)
		c, err := New("sites", w.sites(), ReconcilerFunc(func(context.Context, Request) (Result, error) {
			close(entered)
			<-leave
			return Result{}, nil
		}), WithGracePeriod(0))
		must(t, err)
		c.Enqueue("home", OperationManual)
		r := w.run(c)
		receive(t, "a reconcile", entered)
		r.stop()
		says(t, r.failed(), `controller "sites"`, "1 reconciles did not return", "left behind")
	})
}

func TestMapperThatWaitsDoesNotHoldUpTheStop(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		entered := make(chan struct{}, 10)
		c, err := New("sites", w.sites(), noReconciler,
			Watches(pages, func(ctx context.Context, _ *page) ([]string, error) {
				entered <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		must(t, err)
		r := w.run(c)
		natstest.Eventually(t, "it runs", func() bool { return c.Stats().Leading })
		must(t, pages.Create(t.Context(), newSite("page", "one")))
		receive(t, "the mapper is called", entered)
		r.halt()
	})
}

func TestReconcileTimeoutHasACauseOfItsOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		causes := make(chan error, 1)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if seen.count(req.Key) > 1 {
				return Result{}, nil
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return Result{}, ctx.Err()
		}), WithReconcileTimeout(20*time.Millisecond), WithBackoff(time.Millisecond, time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		cause := receive(t, "the context ends", causes)
		if !errors.Is(cause, ErrReconcileTimeout) || errors.Is(cause, ErrStopped) || errors.Is(cause, ErrLeaseLost) {
			t.Errorf("cause %v, want %v", cause, ErrReconcileTimeout)
		}
		natstest.Eventually(t, "it is retried", func() bool { return seen.with("home", OperationRetry) == 1 })
	})
}

func TestNoGoroutineBeforeRunAndNothingIsLeftAfter(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		before := goleak.IgnoreCurrent()
		trigger := make(chan struct{})
		var seen calls
		c, err := New("sites", sites, seen.reconciler(onePage(sites, pages)), Owns(pages), WithWorkers(50),
			WithReconcileAllOn(trigger),
			Watches(pages, noPages), WithDebounce(time.Millisecond, time.Second))
		must(t, err)
		c.Enqueue("home", OperationManual)
		nothingLeft(t, before, "before Run")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		natstest.Eventually(t, "it works", func() bool { return seen.count("home") > 0 && c.Stats().Ready == [3]int{} })
		c.EnqueueAfter("home", OperationManual, time.Hour)
		cancel()
		must(t, receive(t, "Run ends", ended))
		nothingLeft(t, before, "after Run")
		for _, bucket := range []string{"sites", "sites-status", "pages", "pages-status"} {
			natstest.Eventually(t, "no consumer is left on "+bucket, func() bool {
				return consumers(t, w.js, bucket) == 0
			})
		}
	})
}

func nothingLeft(t *testing.T, before goleak.Option, when string) {
	t.Helper()
	synctest.Wait() // for goroutines that are about to end
	if err := goleak.Find(before); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

func consumers(t *testing.T, js jetstream.JetStream, bucket string) int {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	must(t, err)
	return stream.CachedInfo().State.Consumers
}

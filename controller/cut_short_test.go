package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// endings are what an Observer was told of the ends of reconciles.
type endings chan Ending

func (endings) Begin(ctx context.Context, _ Beginning) context.Context { return ctx }
func (e endings) End(_ context.Context, ended Ending)                  { e <- ended }

// TestAReconcileThatTheEndOfTheTermCutsShortIsNoFailure: a stop whose grace period is over, and the loss of the lease,
// cancel it. That says nothing about the primary.
func TestAReconcileThatTheEndOfTheTermCutsShortIsNoFailure(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, r *running)
		cause error
	}{
		"a stop":            {func(_ *world, r *running) { r.halt() }, ErrStopped},
		"the lease is lost": {func(w *world, _ *running) { w.leaseTo("another", 5*time.Minute) }, ErrLeaseLost},
	} {
		for _, op := range []Operation{OperationPut, OperationDelete} {
			t.Run(name+", "+op.String(), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					sites := w.sites()
					begun, ended := make(chan struct{}), make(endings, 2)
					var told results
					var blocks atomic.Bool
					blocks.Store(op == OperationPut)
					c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
						if !blocks.Load() {
							return Result{}, nil
						}
						close(begun)
						<-ctx.Done()
						return Result{}, context.Cause(ctx)
					}), slowRenewal, WithGracePeriod(time.Second), WithObserver(ended), WithOnResult(told.add),
						WithErrorPolicy(func(string, error, int) Result {
							t.Error("the error policy is asked about it")
							return Result{}
						}))
					must(t, err)
					r := w.run(c)
					must(t, sites.Create(t.Context(), newSite("home", "")))
					if op == OperationDelete {
						receive(t, "its reconcile has ended", ended)
						blocks.Store(true)
						must(t, sites.Delete(t.Context(), "home"))
					}
					receive(t, "it is being reconciled", begun)
					before := c.Stats().Reconciles
					test.end(w, r)
					if e := receive(t, "it has ended", ended); !e.CutShort || e.Terminal || !errors.Is(e.Err, test.cause) {
						t.Errorf("observers were told %+v", e)
					}
					natstest.Eventually(t, "it is counted", func() bool { return c.Stats().Reconciles == before+1 })
					natstest.Eventually(t, "its key is done", func() bool {
						return c.engine.QueueCounts().InProgress == 0
					})
					if s := c.Stats(); s.Failures != 0 || s.Terminals != 0 || s.Failing != 0 {
						t.Errorf("%d failures, %d terminal errors, %d keys fail", s.Failures, s.Terminals, s.Failing)
					}
					if n := c.Explain("home").Failures; n != 0 {
						t.Errorf("%d failures of the key are remembered, from which the next term goes on", n)
					}
					all := told.all()
					if last := all[len(all)-1]; !last.CutShort || !errors.Is(last.Err, test.cause) || !last.NextDue.IsZero() {
						t.Errorf("the callback was told %+v", last)
					}
				})
			})
		}
	}
}

// TestAPanicIsAFailureThoughTheTermIsOver: no end of a context is to blame for it.
func TestAPanicIsAFailureThoughTheTermIsOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		begun, ended := make(chan struct{}), make(endings, 2)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			close(begun)
			<-ctx.Done()
			panic("at the disco")
		}), WithGracePeriod(time.Second), WithObserver(ended))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "it is being reconciled", begun)
		r.halt()
		if e := receive(t, "it has ended", ended); e.CutShort || !e.Panicked {
			t.Errorf("observers were told %+v", e)
		}
		if n := c.Stats().Failures; n != 1 {
			t.Errorf("%d failures, want the panic", n)
		}
	})
}

package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnAttemptIsReportedWithTheOperationsThatTheReconcilerWasTold, also of a key that has no document, which the
// runtime adds Delete to.
func TestAnAttemptIsReportedWithTheOperationsThatTheReconcilerWasTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen calls
	var told results
	c, err := New("sites", w.sites(), seen.reconciler(nil), WithOnResult(told.add))
	must(t, err)
	w.run(c)
	c.Enqueue("nobody", OperationManual)
	eventually(t, "it is reconciled", func() bool { return len(told.all()) == 1 })
	if want, got := seen.of("nobody")[0], told.all()[0].Operations; got != want || !got.Has(OperationDelete) {
		t.Errorf("reported %v, told %v", got, want)
	}
}

// TestTheLastObjectIsKnownWhenTheEndOfItsTeardownIsReported: OnResult may want to say what went.
func TestTheLastObjectIsKnownWhenTheEndOfItsTeardownIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	var c *Controller[*site]
	known := make(chan error, 1)
	c, err := New("sites", sites, (&calls{}).reconciler(nil), WithOnResult(func(r ReconcileResult) {
		if r.Operations.Has(OperationDelete) {
			_, err := c.LastKnown(context.Background(), r.Key)
			known <- err
		}
	}))
	must(t, err)
	w.run(c)
	must(t, sites.Create(t.Context(), newSite("home", "")))
	eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 && c.Stats().Running == 0 })
	must(t, sites.Delete(t.Context(), "home"))
	must(t, receive(t, "the delete is reported", known))
}

// TestATerminalErrorOfATeardownThatTheLossOfTheLeaseCutShortParksNothing: the next term finishes it.
func TestATerminalErrorOfATeardownThatTheLossOfTheLeaseCutShortParksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	begun := make(chan struct{})
	var deletes atomic.Int64
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if !req.Operations.Has(OperationDelete) || deletes.Add(1) > 1 {
			return Result{}, nil
		}
		close(begun)
		<-ctx.Done()
		return Result{}, TerminalError(ctx.Err())
	}), slowRenewal)
	must(t, err)
	w.run(c)
	must(t, sites.Create(t.Context(), newSite("home", "")))
	eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > 0 && c.Stats().Running == 0 })
	must(t, sites.Delete(t.Context(), "home"))
	within(t, "its delete is being reconciled", begun)
	w.leaseTo("another", 5*time.Minute)
	eventually(t, "it has given up", func() bool { s := c.Stats(); return !s.Leading && s.Running == 0 })
	if s := c.Stats(); s.Parked != 0 || s.Terminals != 0 {
		t.Errorf("%d parked, %d terminal errors", s.Parked, s.Terminals)
	}
	w.leaseTo("", time.Second)
	eventually(t, "it is torn down", noRecord(t, sites, "home"))
}

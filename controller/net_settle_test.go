package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAnAttemptIsReportedWithTheOperationsThatTheReconcilerWasTold, also of a key that has no document, which the
// runtime adds Delete to.
func TestAnAttemptIsReportedWithTheOperationsThatTheReconcilerWasTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen calls
		var told results
		c, err := New("sites", w.sites(), seen.reconciler(nil), WithOnResult(told.add))
		must(t, err)
		w.run(c)
		c.Enqueue("nobody", OperationManual)
		natstest.Eventually(t, "it is reconciled", func() bool { return len(told.all()) == 1 })
		if want, got := seen.of("nobody")[0], told.all()[0].Operations; got != want || !got.Has(OperationDelete) {
			t.Errorf("reported %v, told %v", got, want)
		}
	})
}

// TestTheLastObjectIsKnownWhenTheEndOfItsTeardownIsReported: also where the cache has heard of the end before.
func TestTheLastObjectIsKnownWhenTheEndOfItsTeardownIsReported(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		reported, checked := make(chan struct{}), make(chan struct{})
		onResult := func(r ReconcileResult) {
			if r.Operations.Has(OperationDelete) && r.Err == nil {
				close(reported)
				<-checked
			}
		}
		c, err := New("sites", sites, seen.reconciler(nil), WithWorkers(2), WithResyncInterval(0), WithOnResult(onResult))
		must(t, err)
		w.run(c)
		defer close(checked)
		for _, key := range []string{"home", "other"} {
			must(t, sites.Create(t.Context(), newSite(key, "")))
		}
		natstest.Eventually(t, "both are reconciled", func() bool {
			// The removal of a record is an event only where the cache has the record.
			_, cached, err := sites.Records().Informer().GetStore().GetByKey("other")
			return err == nil && cached && seen.count("home") > 0 && c.Stats().Running == 0
		})
		must(t, sites.Delete(t.Context(), "home"))
		receive(t, "the delete is reported", reported)
		// Events of records are handled in order: when this one was, so was the end of the record of home.
		must(t, w.kv("sites-status").Delete(t.Context(), "other"))
		natstest.Eventually(t, "a later event is handled", func() bool {
			return seen.with("other", OperationResync) > 0
		})
		if _, err := sites.Records().Get(t.Context(), "home"); !apierrors.IsNotFound(err) {
			t.Fatalf("the record of home is there, or cannot be read: %v", err)
		}
		last, err := c.LastKnown(t.Context(), "home")
		must(t, err)
		if last.Name != "home" {
			t.Errorf("the last object is %q", last.Name)
		}
	})
}

// TestATerminalErrorOfATeardownThatTheLossOfTheLeaseCutShortParksNothing: the next term finishes it.
func TestATerminalErrorOfATeardownThatTheLossOfTheLeaseCutShortParksNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
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
		natstest.Eventually(t, "it is reconciled", func() bool {
			return c.Stats().Reconciles > 0 && c.Stats().Running == 0
		})
		must(t, sites.Delete(t.Context(), "home"))
		receive(t, "its delete is being reconciled", begun)
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "it has given up", func() bool { s := c.Stats(); return !s.Leading && s.Running == 0 })
		if s := c.Stats(); s.Parked != 0 || s.Terminals != 0 {
			t.Errorf("%d parked, %d terminal errors", s.Parked, s.Terminals)
		}
		w.leaseTo("", time.Second)
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
	})
}

// TestATeardownThatAnotherReplicaFinishesIsForgotten, although the worker that lost the lease is still in its
// reconcile.
func TestATeardownThatAnotherReplicaFinishesIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		begun, leave := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(leave) })
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				close(begun)
				<-leave
				return Result{}, ctx.Err()
			}
			return Result{}, nil
		}), slowRenewal)
		must(t, err)
		w.run(c)
		defer release()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled", func() bool {
			return c.Stats().Reconciles > 0 && c.Stats().Running == 0
		})
		must(t, sites.Delete(t.Context(), "home"))
		receive(t, "its delete is being reconciled", begun)
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "the lease is lost", func() bool { return !c.Stats().Leading })
		must(t, w.kv("sites-status").Delete(t.Context(), "home")) // as the other replica does in the end
		natstest.Eventually(t, "the delete is forgotten", func() bool {
			_, err := c.LastKnown(t.Context(), "home")
			return apierrors.IsNotFound(err)
		})
	})
}

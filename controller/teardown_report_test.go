package controller

import (
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// with are those whose operations have op.
func (r *results) with(op Operation) (list []ReconcileResult) {
	for _, result := range r.all() {
		if result.Operations.Has(op) {
			list = append(list, result)
		}
	}
	return list
}

// TestAReconcilerThatCleanedUpIsNotCalledAgainWhileSomethingIsHeld, by a finalizer for instance: it has done its
// part, and the anchor waits. A delete that is asked for is another one.
func TestAReconcilerThatCleanedUpIsNotCalledAgainWhileSomethingIsHeld(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), &hooked{Client: w.pages()}
		ctx := t.Context()
		var letGo atomic.Bool
		asked := make(chan struct{}, 1000)
		pages.onDelete = func(_ string, remove func() error) error {
			asked <- struct{}{}
			if !letGo.Load() {
				return nil // accepted, and not done
			}
			return remove()
		}
		var seen calls
		c, err := New("sites", sites, seen.reconciler(pagesOf(sites, pages)), Owns(pages), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		create := func() {
			t.Helper()
			heard := seen.with("home", OperationSecondary)
			must(t, sites.Create(ctx, siteWithPages("home", 1)))
			eventuallyReason(t, sites, "home", entity.ReasonSynced)
			// A reconcile for the page could meet the delete before its event comes, which is then one more.
			natstest.Eventually(t, "its page is heard of", func() bool {
				return seen.with("home", OperationSecondary) > heard
			})
			idle(t, c)
		}
		create()
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is asked for again and again", func() bool { return len(asked) >= 4 })
		if n := seen.with("home", OperationDelete); n != 1 {
			t.Errorf("the reconciler was called %d times for the delete, want once", n)
		}
		if n := c.Stats().Failing; n != 0 {
			t.Errorf("%d failing, want none: it waits", n)
		}
		if noRecord(t, sites, "home")() {
			t.Error("the anchor went before the page did")
		}
		c.Enqueue("home", OperationDelete)
		natstest.Eventually(t, "it is called for a delete that is asked for", func() bool {
			return seen.with("home", OperationDelete) == 2
		})
		letGo.Store(true)
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))

		// The next one of that name is cleaned up after too.
		idle(t, c)
		create()
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is called for the next one", func() bool {
			return seen.with("home", OperationDelete) == 3
		})
	})
}

// TestALeaderThatCannotBeAskedIsNoAttempt of the reconciler, which was not called: it is counted apart.
func TestALeaderThatCannotBeAskedIsNoAttempt(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		_, js := natstest.Connect(t, proxy.URL())
		w := &world{t: t, server: server, js: js}
		var seen calls
		var told results
		var policy atomic.Int64
		c, err := New("sites", w.sites(), seen.reconciler(nil), WithResyncInterval(0), WithOnResult(told.add),
			WithErrorPolicy(func(string, error, int) Result {
				policy.Add(1)
				return Result{}
			}))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		proxy.Refuse()
		c.Enqueue("nobody", OperationManual)
		natstest.Eventually(t, "the leader was asked in vain", func() bool { return c.Stats().LeaderErrors > 0 })
		if n := len(told.with(OperationDelete)); n != 0 || policy.Load() != 0 || c.Stats().Reconciles != 0 ||
			c.Stats().Failures != 0 {
			t.Errorf("%d results told, policy asked %d times, %d reconciles, %d failures; want none", n, policy.Load(),
				c.Stats().Reconciles, c.Stats().Failures)
		}
		proxy.Resume()
		natstest.Eventually(t, "it is reconciled then", func() bool { return len(told.with(OperationDelete)) > 0 })
		if n := seen.count("nobody"); n != 1 || told.with(OperationDelete)[0].Err != nil {
			t.Errorf("called %d times, told %+v; want one success", n, told.with(OperationDelete))
		}
	})
}

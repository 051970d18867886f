package controllerruntime

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriReplicaThatWaitsKeepsNoKeysThatAreGone, whichever secondaries name them: those that it lists when it
// starts, and those whose events come later. An owner that exists it keeps, and so what somebody enqueued by hand.
func TestKumoriReplicaThatWaitsKeepsNoKeysThatAreGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites, pages := w.sites(), w.pages()
		const n = 100
		owner := func(i int) string { return fmt.Sprint("gone-", i) }
		must(t, sites.Create(ctx, newSite("home", "")))
		leader := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, leader)
		natstest.Eventually(t, "the first leads", func() bool { return leader.Stats().Leading })
		for i := range n {
			must(t, pages.Create(ctx, owned(newPage(fmt.Sprint("page-", i), "one"), owner(i))))
		}

		waiting := kumori{sites: w.sites(), pages: w.pages()}.listening(nil)
		waiting.then = waiting.kumoriRuntime.HandleSecondary
		waiting.EnqueueKey("by-hand", controller.OperationManual)
		runKumori(t, waiting)
		titled := func(i int, title string) func() bool {
			return waiting.secondaries.any(func(obj any) bool {
				return obj.(*page).Name == fmt.Sprint("page-", i) && obj.(*page).Spec.Title == title
			})
		}
		queued := func() int { return waiting.Stats().Remembered }
		natstest.Eventually(t, "the second has listed the pages, and keeps only what it may", func() bool {
			return titled(n-1, "one")() && queued() == 2
		})
		for i := range n {
			must(t, pages.Patch(ctx, fmt.Sprint("page-", i), []byte(`{"spec":{"title":"two"}}`)))
		}
		for i := range n {
			natstest.Eventually(t, "the second hears of each page", titled(i, "two"))
		}
		must(t, pages.Create(ctx, owned(newPage("last", "two"), "home")))
		natstest.Eventually(t, "and of the last", waiting.secondaries.any(func(obj any) bool {
			return obj.(*page).Name == "last"
		}))
		if left := queued(); left != 2 {
			t.Errorf("%d keys are in the queue of the replica that waits, want 2", left)
		}
		for i := range n {
			if ops := waiting.engine.Explainer().Explain(owner(i)).Reasons; ops != "" {
				t.Fatalf("%s is kept, for %s", owner(i), ops)
			}
		}
	})
}

// TestKumoriReplicaThatWaitsKeepsNoKeysThatAreGoneAlsoOfAnOverride, which enqueues by itself.
func TestKumoriReplicaThatWaitsKeepsNoKeysThatAreGoneAlsoOfAnOverride(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites, pages := w.sites(), w.pages()
		for _, name := range []string{"home", "gone"} {
			must(t, sites.Create(ctx, newSite(name, "")))
		}
		leader := kumori{sites: sites, pages: pages}.custom(nil)
		r := runKumori(t, leader)
		natstest.Eventually(t, "the first leads", func() bool { return leader.Stats().Leading })
		must(t, pages.Create(ctx, owned(newPage("early", ""), "never-was")))

		var waiting *listening
		waiting = kumori{sites: w.sites(), pages: w.pages()}.listening(func(obj any) {
			if _, key, err := waiting.DecomposeKubeSecondaryResource(obj); err == nil && key != "" {
				waiting.EnqueueKey(key, controller.OperationSecondary)
				waiting.EnqueueKeyAfter(key, controller.OperationSecondary, time.Millisecond)
			}
		})
		runKumori(t, waiting)
		hears := func(name string) {
			t.Helper()
			natstest.Eventually(t, "it hears of "+name, waiting.secondaries.any(func(obj any) bool {
				return obj.(*page).Name == name
			}))
		}
		pending := func(key string) bool { return waiting.engine.Explainer().Explain(key).Reasons != "" }
		hears("early")
		must(t, pages.Create(ctx, owned(newPage("a", ""), "gone")))
		must(t, pages.Create(ctx, owned(newPage("b", ""), "home")))
		hears("b")
		natstest.Eventually(t, "it keeps those that exist", func() bool { return pending("gone") && pending("home") })
		must(t, sites.Delete(ctx, "gone"))
		must(t, pages.Create(ctx, owned(newPage("c", ""), "never-was")))
		hears("c")
		natstest.Eventually(t, "and forgets what is gone", func() bool {
			return !pending("gone") && !pending("never-was") && waiting.Stats().Remembered == 1
		})
		r.halt()
		natstest.Eventually(t, "what it kept is synced when it leads", func() bool {
			return waiting.seen.with("home", controller.OperationSecondary) > 0
		})
	})
}

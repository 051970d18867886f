package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatWasLeftOnPurposeStaysWhenSomebodyAsksForADelete: the primary is gone and torn down, and its deletion policy
// left what it owned. A delete that is enqueued by hand later runs the reconciler, and deletes nothing.
func TestWhatWasLeftOnPurposeStaysWhenSomebodyAsksForADelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(onePage(sites, pages)), Owns(pages), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		home := newSite("home", "")
		home.Annotations = map[string]string{DeletionPolicyAnnotation: DeletionPolicyOrphan}
		must(t, sites.Create(ctx, home))
		natstest.Eventually(t, "it has a page", func() bool { return count(t, pages) == 1 })
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		natstest.Eventually(t, "its record is removed", noRecord(t, sites, "home"))

		c.Enqueue("home", OperationDelete)
		natstest.Eventually(t, "it is torn down again", func() bool { return c.Stats().TornDown == 2 })
		if seen.with("home", OperationDelete) != 2 {
			t.Errorf("the reconciler was told Delete %d times, want twice", seen.with("home", OperationDelete))
		}
		if n := count(t, pages); n != 1 {
			t.Errorf("%d pages are left, want the one that was left on purpose", n)
		}
	})
}

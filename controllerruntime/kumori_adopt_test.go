package controllerruntime

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriOrphansAreAdopted, though the runtime deletes none: what names its owner as the original runtime does is
// the new owner's, whose secondary is handled, and which is synced.
func TestKumoriOrphansAreAdopted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, pages.Create(t.Context(), labelled(newPage("a", ""), "never-was")))
		must(t, pages.Create(t.Context(), labelled(newPage("b", ""), "home")))
		c := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "the sweep of the start is over", func() bool { return c.Stats().NeverWas == 1 })
		all, err := c.engine.Orphans(lifecycle.OrphanFilter{Owner: "never-was"})
		if err != nil || len(all.Deletable()) != 0 || len(all.Adoptable()) != 1 || all.ID == "" {
			t.Fatalf("%+v, %v", all, err)
		}
		order := lifecycle.AdoptOrder{From: "never-was", To: "home", List: all.ID, Expect: 1}
		done, err := c.engine.AdoptOrphans(t.Context(), order)
		if err != nil || done.Adopted != 1 || done.Left != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		page, err := pages.Get(t.Context(), "a")
		must(t, err)
		if !entity.IsOwnedBy(page, "Site", "home") || entity.InstanceOf(page) == "" {
			t.Errorf("%v, %v", page.Annotations, page.Labels)
		}
		natstest.Eventually(t, "the new owner is synced", func() bool {
			return c.seen.with("home", controller.OperationManual) > 0 && c.seen.with("home", controller.OperationSecondary) > 0
		})
		time.Sleep(time.Minute)
		if n := c.Stats().NeverWas; n != 0 {
			t.Errorf("%d are reported", n)
		}
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "its delete is synced", func() bool {
			return c.seen.with("home", controller.OperationDelete) > 0
		})
	})
}

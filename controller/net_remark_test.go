package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestTheRecordOfADocumentThatTheCacheLacksStays: it has no anchor, only a status that somebody wrote. Before it is
// removed the leader is asked, which has the document.
func TestTheRecordOfADocumentThatTheCacheLacksStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		ctx := t.Context()
		writer, pages := w.sites(), w.pages()
		home := newSite("home", "")
		must(t, writer.Create(ctx, home))
		home.Status.Note = "written by somebody else"
		must(t, writer.UpdateStatus(ctx, home))
		sites := &blind{Client: w.away().sites(), hidden: "home"}
		var seen calls
		c, err := New("sites", entity.IEntityClient[*site](sites), seen.reconciler(nil), Owns(pages),
			WithResyncInterval(0))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading && c.Stats().Sweeps > 0 })
		must(t, pages.Create(ctx, w.ownedPage("page", "home"))) // which makes its owner due
		natstest.Eventually(t, "the leader was asked", func() bool { return sites.confirmed.Load() > 0 })
		natstest.Eventually(t, "the queue is worked off", func() bool {
			s := c.Stats()
			return s.Ready == [3]int{} && s.Running == 0
		})
		got, err := writer.Get(ctx, "home")
		must(t, err)
		if got.Status.Note != home.Status.Note {
			t.Errorf("the status is %+v, want %+v", got.Status, home.Status)
		}
		if n := seen.count("home"); n > 0 {
			t.Errorf("it was reconciled: %v", seen.of("home"))
		}
	})
}

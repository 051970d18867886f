package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

const (
	suspendPatch = `{"metadata":{"annotations":{"nagi/suspend":"true"}}}`
	resumePatch  = `{"metadata":{"annotations":{"nagi/suspend":null}}}`
)

// TestASuspendedDocumentIsNotReconciledUntilItIsResumed, whatever happens meanwhile.
func TestASuspendedDocumentIsNotReconciledUntilItIsResumed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(onePage(sites, pages)), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Patch(ctx, "home", []byte(suspendPatch)))
		eventuallyReason(t, sites, "home", entity.ReasonSuspended)

		before := seen.count("home")
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
		must(t, pages.Patch(ctx, "home", []byte(`{"spec":{"title":"changed"}}`)))
		c.Enqueue("home", OperationManual)
		must(t, sites.Create(ctx, newSite("after", "one")))
		natstest.Eventually(t, "others are reconciled", func() bool { return seen.count("after") > 0 })
		natstest.Eventually(t, "the queue is worked off", func() bool {
			s := c.Stats()
			return s.Ready == [3]int{} && s.Running == 0
		})
		if n := seen.count("home"); n != before {
			t.Errorf("reconciled %d times while suspended: %v", n-before, seen.of("home")[before:])
		}
		must(t, sites.Patch(ctx, "home", []byte(resumePatch)))
		natstest.Eventually(t, "it is reconciled again", func() bool {
			p, err := pages.Get(ctx, "home")
			return err == nil && p.Spec.Title == "two"
		})
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
	})
}

// TestASuspendedDocumentIsTornDownWhenItIsDeleted, since its delete is a new state of affairs; also when the delete was
// missed.
func TestASuspendedDocumentIsTornDownWhenItIsDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, down := range []bool{false, true} {
			w := newWorld(t)
			sites, pages := w.sites(), w.pages()
			ctx := t.Context()
			c, err := New("sites", sites, onePage(sites, pages), Owns(pages))
			must(t, err)
			r := w.run(c)
			must(t, sites.Create(ctx, newSite("home", "one")))
			eventuallyReason(t, sites, "home", entity.ReasonSynced)
			must(t, sites.Patch(ctx, "home", []byte(suspendPatch)))
			eventuallyReason(t, sites, "home", entity.ReasonSuspended)
			if down {
				r.halt()
			}
			must(t, sites.Delete(ctx, "home"))
			if down {
				c, err = New("sites", sites, onePage(sites, pages), Owns(pages))
				must(t, err)
				w.run(c)
			}
			natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
			if exists(t, pages, "home") {
				t.Error("its page is left")
			}
		}
	})
}

// TestADocumentSuspendedBeforeARestartRests there too.
func TestADocumentSuspendedBeforeARestartRests(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		s := newSite("home", "one")
		s.Annotations = map[string]string{SuspendAnnotation: "true"}
		must(t, sites.Create(ctx, s))
		must(t, sites.Create(ctx, newSite("after", "one")))
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "others are reconciled", func() bool { return seen.count("after") > 0 })
		eventuallyReason(t, sites, "home", entity.ReasonSuspended)
		if seen.count("home") > 0 {
			t.Error("reconciled although it is suspended")
		}
		must(t, sites.Patch(ctx, "home", []byte(resumePatch)))
		natstest.Eventually(t, "it is reconciled once resumed", func() bool { return seen.count("home") > 0 })
	})
}

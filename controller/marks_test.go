package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withoutAnnotations leaves a page the labels of its owner alone.
func withoutAnnotations(p *page) *page {
	p.Annotations = nil
	return p
}

// TestASecondaryInNATSThatLabelsAloneNameGoesWithItsOwner, by cascade and by sweep: somebody has written the document
// without its annotations.
func TestASecondaryInNATSThatLabelsAloneNameGoesWithItsOwner(t *testing.T) {
	for name, key := range map[string]string{
		"key in the label": "home", "key hashed": "home-" + strings.Repeat("of-a-long-name-", 5) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx := t.Context()
				sites, pages := w.sites(), w.pages()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, newSite(key, "one")))
				eventuallyReason(t, sites, key, entity.ReasonSynced)
				mine, orphan, foreign := newPage("mine", ""), newPage("orphan", ""), newPage("foreign", "")
				c.SetOwner(mine, key)
				c.SetOwner(orphan, "gone")
				must(t, sites.Create(ctx, newSite("gone", "")))
				eventuallyReason(t, sites, "gone", entity.ReasonSynced)
				must(t, sites.Delete(ctx, "gone"))
				natstest.Eventually(t, "the orphan's owner is torn down", noRecord(t, sites, "gone"))
				entity.SetOwner(foreign, "Site", key, "another-installation")
				for _, p := range []*page{mine, orphan, foreign} {
					must(t, pages.Create(ctx, withoutAnnotations(p)))
				}
				gone := func(name string) func() bool {
					return func() bool {
						_, err := pages.Get(ctx, name)
						return apierrors.IsNotFound(err)
					}
				}
				natstest.Eventually(t, "the orphan is swept", gone("orphan"))
				owned, err := pages.Lister().OwnedBy("Site", key)
				if err != nil || len(owned) != 2 {
					t.Errorf("it owns %v, %v; want its own and the other installation's", owned, err)
				}
				must(t, sites.Delete(ctx, key))
				natstest.Eventually(t, "it is torn down", noRecord(t, sites, key))
				if !gone("mine")() || gone("foreign")() {
					t.Errorf("its own is gone: %v; another installation's is gone: %v", gone("mine")(), gone("foreign")())
				}
			})
		})
	}
}

// TestASecondaryThatLabelsAloneNameStaysWhereNothingTellsThatItsOwnerWasDeleted: the stream may have been restored to a
// state before the document, and the stamp that would say so went with the annotations.
func TestASecondaryThatLabelsAloneNameStaysWhereNothingTellsThatItsOwnerWasDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		orphan := newPage("orphan", "")
		c.SetOwner(orphan, "never-seen")
		must(t, pages.Create(t.Context(), withoutAnnotations(orphan)))
		natstest.Eventually(t, "it is reported", func() bool { return c.Stats().NeverWas == 1 })
		sweeps := c.Stats().Sweeps
		natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+3 })
		_, err = pages.Get(t.Context(), "orphan")
		must(t, err)
		if n := seen.count("never-seen"); n != 0 || c.Stats().BrakeEngaged != 0 {
			t.Errorf("it was reconciled %d times, and the brake is %+v", n, c.Stats().Brake)
		}
	})
}

package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
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
	t.Parallel()
	for name, key := range map[string]string{
		"key in the label": "home", "key hashed": "home-" + strings.Repeat("of-a-long-name-", 5) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx := t.Context()
			sites, pages := w.sites(), w.pages()
			var seen calls
			c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(50*time.Millisecond))
			must(t, err)
			w.run(c)
			must(t, sites.Create(ctx, newSite(key, "one")))
			eventuallyReason(t, sites, key, entity.ReasonSynced)
			mine, orphan, foreign := newPage("mine", ""), newPage("orphan", ""), newPage("foreign", "")
			c.SetOwner(mine, key)
			c.SetOwner(orphan, "gone")
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
			eventually(t, "the orphan is swept", gone("orphan"))
			owned, err := pages.Lister().OwnedBy("Site", key)
			if err != nil || len(owned) != 2 {
				t.Errorf("it owns %v, %v; want its own and the other installation's", owned, err)
			}
			must(t, sites.Delete(ctx, key))
			eventually(t, "it is torn down", noRecord(t, sites, key))
			if !gone("mine")() || gone("foreign")() {
				t.Errorf("its own is gone: %v; another installation's is gone: %v", gone("mine")(), gone("foreign")())
			}
		})
	}
}

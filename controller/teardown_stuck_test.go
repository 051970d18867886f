package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestATeardownThatDoesNotGoOnIsDegraded, because nobody reads the record of a document that is gone. Another teardown
// that ends does not hide it. It is over when the teardown goes on, when the document is back, and with the term.
func TestATeardownThatDoesNotGoOnIsDegraded(t *testing.T) {
	for name, end := range map[string]func(w *world, pages *hooked, sites *entity.Client[*site]){
		"it goes on": func(_ *world, pages *hooked, _ *entity.Client[*site]) {
			pages.hook(func() { pages.onDelete = nil })
		},
		"the document is back": func(w *world, _ *hooked, sites *entity.Client[*site]) {
			must(w.t, sites.Create(w.t.Context(), siteWithPages("home", 1)))
		},
		"the lease is lost": func(w *world, _ *hooked, _ *entity.Client[*site]) {
			w.leaseTo("another", 5*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), &hooked{Client: w.pages()}
				pages.onDelete = func(key string, remove func() error) error {
					if strings.HasPrefix(key, "home") {
						return errors.New("no rights")
					}
					return remove()
				}
				c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages), slowRenewal,
					WithBackoff(time.Millisecond, 50*time.Millisecond))
				must(t, err)
				w.run(c)
				for _, key := range []string{"home", "other"} {
					must(t, sites.Create(t.Context(), siteWithPages(key, 1)))
					eventuallyReason(t, sites, key, entity.ReasonSynced)
				}
				must(t, sites.Delete(t.Context(), "home"))
				shown := func() bool {
					err := c.Stats().Degraded["teardown"]
					return err != nil && strings.Contains(err.Error(), `"home"`) && strings.Contains(err.Error(), "no rights")
				}
				natstest.Eventually(t, "it is degraded", shown)
				must(t, sites.Delete(t.Context(), "other"))
				natstest.Eventually(t, "the other is torn down", func() bool { return c.Stats().TornDown == 1 })
				throughout(t, 200*time.Millisecond, "it is degraded", shown)
				end(w, pages, sites)
				natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
			})
		})
	}
}

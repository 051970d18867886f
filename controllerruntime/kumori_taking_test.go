package controllerruntime

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestKumoriTwoPrimariesDoNotStealAPageFromEachOther, though each names itself as its owner and writes without the
// reconcile's context: one gets it, the other gets an error, and nothing is written from then on.
func TestKumoriTwoPrimariesDoNotStealAPageFromEachOther(t *testing.T) {
	for name, byMutate := range map[string]bool{"SetOwner before": false, "SetOwner in mutate": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				var mu sync.Mutex
				got, refused := map[string]int{}, map[string]int{}
				var c *custom
				c = kumori{sites: sites, pages: pages}.custom(func(key string) error {
					p := newPage("shared", "")
					if !byMutate {
						c.SetOwner(p, key)
					}
					_, err := controller.CreateOrUpdate(context.Background(), pages, p, func(p *page) error {
						if byMutate {
							c.SetOwner(p, key)
						}
						p.Spec.Title = key
						return nil
					})
					mu.Lock()
					defer mu.Unlock()
					if _, owned := errors.AsType[*controller.AlreadyOwnedError](err); owned {
						refused[key]++
					} else if err == nil {
						got[key]++
					}
					return err
				})
				runKumori(t, c)
				must(t, sites.Create(t.Context(), newSite("first", "")))
				must(t, sites.Create(t.Context(), newSite("second", "")))
				tried := func(key string) int {
					mu.Lock()
					defer mu.Unlock()
					return got[key] + refused[key]
				}
				natstest.Eventually(t, "both have tried", func() bool { return tried("first") > 0 && tried("second") > 0 })
				for n := range 20 { // of whom each would take it back
					c.EnqueueKey("first", OperationPut)
					c.EnqueueKey("second", OperationPut)
					natstest.Eventually(t, "both try again", func() bool { return tried("first") > n+1 && tried("second") > n+1 })
				}
				mu.Lock()
				defer mu.Unlock()
				if len(got) != 1 || len(refused) != 1 {
					t.Errorf("got it: %v, refused: %v; want one of each", got, refused)
				}
				p, err := pages.Get(t.Context(), "shared")
				must(t, err)
				if got[p.Spec.Title] == 0 || !entity.IsOwnedBy(p, "Site", p.Spec.Title) || p.ResourceVersion != "1" {
					t.Errorf("it is %+v of %v at revision %s, want one write", p.Spec, p.Annotations, p.ResourceVersion)
				}
			})
		})
	}
}

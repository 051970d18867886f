package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// neighbour is one of two controllers over the same sites. Each has a status bucket of its own, and makes the page
// "<site>.<mark>" of each.
type neighbour struct {
	*world
	mark  string
	sites *entity.Client[*site]
	pages *entity.Client[*page]
	c     *Controller[*site]
	r     *running
}

func (w *world) neighbour(name, mark, instance string, owns ...SourceOption) *neighbour {
	w.t.Helper()
	n := &neighbour{world: w, mark: mark, pages: w.pages()}
	n.sites = w.client("Site", "sites", func(cfg *entity.Config) { cfg.StatusBucket = "status-" + mark })
	c, err := New(name, n.sites, ReconcilerFunc(n.reconcile), Owns(n.pages, owns...), WithInstance(instance), quickRetries)
	must(w.t, err)
	n.c, n.r = c, w.run(c)
	return n
}

func (n *neighbour) reconcile(ctx context.Context, req Request) (Result, error) {
	if _, err := n.sites.Lister().Get(req.Key); err != nil {
		return Result{}, nil
	}
	_, err := CreateOrUpdate(ctx, n.pages, newSite(req.Key+"."+n.mark, ""), func(*page) error { return nil })
	return Result{}, err
}

// deletes counts the pages that were deleted, all of which leave a marker.
func (n *neighbour) deletes() (count int) {
	n.t.Helper()
	watch, err := n.kv("pages").WatchAll(n.t.Context())
	must(n.t, err)
	defer func() { _ = watch.Stop() }()
	for entry := range watch.Updates() {
		if entry == nil {
			return count
		}
		if entry.Operation() != jetstream.KeyValuePut {
			count++
		}
	}
	return count
}

// held says what the brake of a neighbour says about what it holds; "" if it does not.
func (n *neighbour) held() string {
	if problem := n.c.Stats().Degraded["brake"]; problem != nil && n.c.Stats().Brake.Pruned > 0 {
		return problem.Error()
	}
	return ""
}

// TestTwoControllersWithOneInstanceDeleteNothingOfEachOther, not once, whatever they are called: both hold it, and say
// what to do. Then each gets an id of its own, and has what it wants.
func TestTwoControllersWithOneInstanceDeleteNothingOfEachOther(t *testing.T) {
	const sites = 5
	for _, names := range [][2]string{{"a", "b"}, {"sites", "sites"}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.neighbour(names[0], "a", "shared", WithPrune())
				b := w.neighbour(names[1], "b", "shared", WithPrune())
				var all []string
				for i := range sites {
					key := fmt.Sprintf("site%d", i)
					must(t, a.sites.Create(t.Context(), newSite(key, "")))
					all = append(all, key+".a", key+".b")
				}
				for _, n := range []*neighbour{a, b} {
					natstest.Eventually(t, "it holds what it would delete", func() bool {
						return n.c.Stats().Brake.Pruned == sites
					})
					other := map[*neighbour]string{a: "status-b", b: "status-a"}[n]
					for _, says := range []string{other, `"shared"`, "WithInstance"} {
						if !strings.Contains(n.held(), says) {
							t.Errorf("%s does not say %s: %s", n.mark, says, n.held())
						}
					}
				}
				if got := a.names(); !slices.Equal(got, all) || a.deletes() > 0 {
					t.Errorf("%d deletes, left are %v", a.deletes(), got)
				}

				// What to do: an id of its own, which the status bucket has to have, too. What was made under the old one
				// goes when its owner's controller is released, and is made anew.
				b.r.halt()
				_, err := w.kv("status-b").Put(t.Context(), record.KeyInstance, []byte("own"))
				must(t, err)
				b = w.neighbour(names[1], "b", "own", WithPrune())
				must(t, a.c.ReleaseBrake(t.Context()))
				natstest.Eventually(t, "each has what it wants", func() bool {
					list, err := a.pages.List(t.Context())
					must(t, err)
					byID := map[string]int{}
					for _, p := range list {
						byID[p.Name[len("site0."):]+" of "+entity.InstanceOf(p)]++
					}
					return len(list) == 2*sites && byID["a of shared"] == sites && byID["b of own"] == sites
				})
				for _, n := range []*neighbour{a, b} {
					natstest.Eventually(t, "nothing is held", func() bool {
						return n.held() == "" && !n.c.Stats().Brake.Engaged
					})
				}
				if n := a.deletes(); n > 0 {
					t.Errorf("%d pages are left as markers", n)
				}
			})
		})
	}
}

// TestAControllerThatPrunesLeavesWhatOneMakesThatDoesNot, with the same id; also what an older version of that wrote,
// which names nobody.
func TestAControllerThatPrunesLeavesWhatOneMakesThatDoesNot(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.neighbour("b", "b", "shared")
		must(t, b.sites.Create(t.Context(), newSite("home", "")))
		must(t, b.sites.Create(t.Context(), newSite("shop", "")))
		for _, key := range []string{"home", "shop"} {
			eventuallyReason(t, b.sites, key, entity.ReasonSynced)
		}
		w.unnamed(b.pages, "home.b")
		a := w.neighbour("a", "a", "shared", WithPrune())
		natstest.Eventually(t, "all is held", func() bool { return a.c.Stats().Brake.Pruned == 2 })
		if got := b.names(); !slices.Equal(got, []string{"home.a", "home.b", "shop.a", "shop.b"}) || a.deletes() > 0 {
			t.Errorf("%d deletes, left are %v", a.deletes(), got)
		}
	})
}

func (n *neighbour) names() []string {
	n.t.Helper()
	return (&pruned{world: n.world, pages: n.pages}).names()
}

// unnamed takes off pages by whom they are written, as an older version wrote them.
func (w *world) unnamed(pages *entity.Client[*page], keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		p, err := pages.Get(w.t.Context(), key)
		must(w.t, err)
		delete(p.Annotations, "nagi/ownerstatusbucket")
		must(w.t, pages.Update(w.t.Context(), p))
	}
}

// TestWhatAnOlderVersionWroteGoes without a release, where the id of the installation was made here: no other
// controller has it. And nothing is written because of it.
func TestWhatAnOlderVersionWroteGoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPruned(t)
		must(t, p.sites.Create(t.Context(), newSite("home", "a,b")))
		p.eventuallyPages("it has its pages", "home.a", "home.b")
		p.reconciled("home")
		p.unnamed(p.pages, "home.a", "home.b")
		p.resync("home")
		obj, err := p.pages.Get(t.Context(), "home.b")
		must(t, err)
		if name, named := obj.Annotations["nagi/ownerstatusbucket"]; named {
			t.Errorf("it was written for the name of %q alone", name)
		}
		p.retitle("home", "b")
		p.eventuallyPages("the old one goes", "home.b")
		if s := p.c.Stats(); s.Brake.Engaged {
			t.Errorf("the brake is %+v", s.Brake)
		}
	})
}

// TestWhatIsWantedGetsItsNameWhereAnotherControllerMayHaveTheID, so that it goes later without a release.
func TestWhatIsWantedGetsItsNameWhereAnotherControllerMayHaveTheID(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPruned(t, WithInstance("configured"))
		must(t, p.sites.Create(t.Context(), newSite("home", "a,b")))
		p.eventuallyPages("it has its pages", "home.a", "home.b")
		p.reconciled("home")
		p.unnamed(p.pages, "home.a", "home.b")
		natstest.Eventually(t, "they are named", func() bool {
			for _, key := range []string{"home.a", "home.b"} {
				obj, err := p.pages.Get(t.Context(), key)
				must(t, err)
				if obj.Annotations["nagi/ownerstatusbucket"] != "sites-status" {
					return false
				}
			}
			return true
		})
		p.reconciled("home")
		p.retitle("home", "b")
		p.eventuallyPages("the old one goes", "home.b")
		if s := p.c.Stats(); s.Brake.Engaged {
			t.Errorf("the brake is %+v", s.Brake)
		}
	})
}

// TestATransformWithoutAnnotationsLeavesWhoWroteAPage, so that its prune waits for no release.
func TestATransformWithoutAnnotationsLeavesWhoWroteAPage(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPrunedThrough(t, func(obj any) (any, error) { obj.(*page).Annotations = nil; return obj, nil },
			WithInstance("configured"))
		must(t, p.sites.Create(t.Context(), newSite("home", "a,b")))
		p.eventuallyPages("it has its pages", "home.a", "home.b")
		p.reconciled("home")
		p.retitle("home", "b")
		natstest.Eventually(t, "the old one goes, or is held", func() bool {
			return p.c.Stats().Pruned > 0 || p.c.Stats().Brake.Engaged
		})
		if s := p.c.Stats(); s.Brake.Engaged {
			t.Errorf("the brake is %+v", s.Brake)
		}
		p.eventuallyPages("the old one goes", "home.b")
	})
}

// TestTwoControllersThatWantOnePageDoNotWriteItForEver: that another has written it is no reason to write, also where
// mutate sets all annotations, or names the owner.
func TestTwoControllersThatWantOnePageDoNotWriteItForEver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var both []*Controller[*site]
		for _, mark := range []string{"a", "b"} {
			sites := w.client("Site", "sites", func(cfg *entity.Config) { cfg.StatusBucket = "status-" + mark })
			var c *Controller[*site]
			c, err := New(mark, sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
				for name, mutate := range map[string]func(*page) error{
					"plain": func(*page) error { return nil },
					"all":   func(p *page) error { p.Annotations = map[string]string{"mine": "1"}; return nil },
					"owned": func(p *page) error { c.SetOwner(p, req.Key); return nil },
				} {
					if _, err := CreateOrUpdate(ctx, pages, newSite(name, ""), mutate); err != nil {
						return Result{}, err
					}
				}
				return Result{}, nil
			}), Owns(pages, WithPrune()), WithInstance("shared"), quickRetries)
			must(t, err)
			w.run(c)
			both = append(both, c)
			if mark == "a" {
				must(t, sites.Create(t.Context(), newSite("home", "")))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
			}
			natstest.Eventually(t, "it is calm", func() bool {
				s := c.Stats()
				return s.Reconciles > 0 && s.Running == 0 && s.Ready == [3]int{}
			})
		}
		before, err := pages.List(t.Context())
		must(t, err)
		for range 3 {
			for _, c := range both {
				n := c.Stats().Reconciles
				c.Enqueue("home", OperationManual)
				natstest.Eventually(t, "it is reconciled again", func() bool {
					return c.Stats().Reconciles > n && c.Stats().Running == 0
				})
			}
		}
		for _, p := range before {
			now, err := pages.Get(t.Context(), p.Name)
			must(t, err)
			writer := now.Annotations["nagi/ownerstatusbucket"]
			if writer != "status-a" || now.ResourceVersion != p.ResourceVersion {
				t.Errorf("%s was written again, by %q: %s, then %s", p.Name, writer, p.ResourceVersion, now.ResourceVersion)
			}
		}
		for _, c := range both {
			if s := c.Stats(); s.Brake.Engaged || s.Pruned > 0 || s.Failures > 0 {
				t.Errorf("pruned %d, %d failures, brake %+v", s.Pruned, s.Failures, s.Brake)
			}
		}
	})
}

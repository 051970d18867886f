package controllerruntime

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/cache"
)

// departed makes sites and deletes them again, as somebody does while no controller runs: the markers of the deletes
// stay.
func departed(t *testing.T, sites *entity.Client[*site], keys ...string) {
	t.Helper()
	for _, key := range keys {
		must(t, sites.Create(t.Context(), newSite(key, "")))
		must(t, sites.Delete(t.Context(), key))
	}
}

// collecting overrides GarbageSecondaries.
type collecting struct {
	*listening
	collect func()
}

func (k kumori) collecting(collect func(c *collecting)) *collecting {
	c := &collecting{listening: k.listening(nil)}
	c.collect = func() { collect(c) }
	c.SetCustomController(c)
	return c
}

func (c *collecting) GarbageSecondaries() { c.collect() }

func TestKumoriDefaultGarbageSecondariesEnqueuesEachMissingOwnerWithDelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		_, informer := kubeInformer(t, owned(configMap("settings", ""), "gone-too"),
			owned(configMap("of-a-ghost", ""), "never-was"))
		departed(t, sites, "gone", "gone-too")
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, pages.Create(t.Context(), owned(newPage("a", ""), "gone")))
		must(t, pages.Create(t.Context(), owned(newPage("b", ""), "gone")))
		must(t, pages.Create(t.Context(), owned(newPage("c", ""), "home")))

		c := kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "the missing owners are synced after the first sync", func() bool {
			return c.seen.with("gone", controller.OperationDelete) == 1 &&
				c.seen.with("gone-too", controller.OperationDelete) == 1
		})
		natstest.Eventually(t, "and the one that exists", func() bool { return c.seen.count("home") > 0 })
		if n := c.seen.with("home", controller.OperationDelete); n != 0 {
			t.Errorf("an owner that exists was synced with Delete %d times", n)
		}
		if n := c.seen.count("never-was"); n != 0 || c.Stats().NeverWas != 1 {
			t.Errorf("an owner that never was was synced %d times, and %d objects are reported", n, c.Stats().NeverWas)
		}
	})
}

func TestKumoriDefaultGarbageSecondariesComesBackEachInterval(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		departed(t, sites, "gone")
		must(t, pages.Create(t.Context(), owned(newPage("a", ""), "gone")))
		// which leaves the page where it is
		c := kumori{sites: sites, pages: pages, resync: 100 * time.Millisecond}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "three intervals", func() bool { return c.seen.with("gone", controller.OperationDelete) >= 3 })
	})
}

// disbelieving is a client whose leader says that every document exists.
type disbelieving struct {
	*entity.Client[*site]
	asked atomic.Int32
}

func (d *disbelieving) EnginePort() entity.EnginePort[*site] {
	return disbelievingPort{d.Client.EnginePort(), d}
}

type disbelievingPort struct {
	entity.EnginePort[*site]
	of *disbelieving
}

func (p disbelievingPort) Confirm(context.Context, string) (entity.Presence, error) {
	p.of.asked.Add(1)
	return entity.Presence{Exists: true, Revision: 1}, nil
}

func TestKumoriDefaultGarbageSecondariesAsksTheLeaderFirst(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := &disbelieving{Client: w.sites()}, w.pages()
		must(t, pages.Create(t.Context(), owned(newPage("a", ""), "gone")))
		c := kumori{sites: sites, pages: pages}.custom(nil)
		r := runKumori(t, c)
		natstest.Eventually(t, "the leader is asked", func() bool { return sites.asked.Load() > 0 })
		r.halt()
		if ops := c.seen.of("gone"); len(ops) != 0 {
			t.Errorf("synced though the leader has the document: %v", ops)
		}
	})
}

func TestKumoriBrakeHoldsAMassOfMissingOwnersUntilItIsReleased(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		const mass = 2 * brake.Least
		owner := func(i int) string { return fmt.Sprintf("gone-%d", i) }
		for i := range mass {
			departed(t, sites, owner(i))
			must(t, pages.Create(t.Context(), owned(newPage(fmt.Sprintf("page-%d", i), ""), owner(i))))
		}
		c := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "the brake holds them", func() bool {
			state := c.Stats().Brake
			return state.Engaged && state.Swept == mass
		})
		c.EnqueueKey("last", controller.OperationPut) // nothing else keeps the worker busy
		natstest.Eventually(t, "another key is synced", func() bool { return c.seen.count("last") == 1 })
		for i := range mass {
			if ops := c.seen.of(owner(i)); len(ops) != 0 {
				t.Fatalf("%s was synced under the brake: %v", owner(i), ops)
			}
		}
		must(t, c.ReleaseBrake(t.Context()))
		for i := range mass {
			natstest.Eventually(t, owner(i)+" is synced after the release", func() bool {
				return c.seen.with(owner(i), controller.OperationDelete) == 1
			})
		}
	})
}

// TestKumoriRequireInstanceLeavesWhatNamesNone: no events reach an owner, and the sweep leaves it. What names this
// installation is synced as ever.
func TestKumoriRequireInstanceLeavesWhatNamesNone(t *testing.T) {
	for name, required := range map[string]bool{"by default": false, "required": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				departed(t, sites, "gone", "left")
				must(t, sites.Create(t.Context(), newSite("home", "")))
				must(t, sites.Create(t.Context(), newSite("away", "")))
				c := kumori{sites: sites, pages: pages, resync: 50 * time.Millisecond}.custom(nil)
				if required {
					c.RequireInstance()
				}
				runKumori(t, c)
				natstest.Eventually(t, "both are synced", func() bool {
					return c.seen.count("home") > 0 && c.seen.count("away") > 0
				})
				must(t, pages.Create(t.Context(), owned(newPage("unnamed", ""), "gone")))
				must(t, pages.Create(t.Context(), owned(newPage("of-home", ""), "home")))
				for name, owner := range map[string]string{"named": "left", "of-away": "away"} {
					p := newPage(name, "")
					c.SetOwner(p, owner)
					must(t, pages.Create(t.Context(), p))
				}
				natstest.Eventually(t, "what names this installation is synced", func() bool {
					return c.seen.with("left", controller.OperationDelete) > 0 &&
						c.seen.with("away", controller.OperationSecondary) > 0
				})
				sweeps := c.Stats().Sweeps
				natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+3 })
				if synced := c.seen.count("gone") > 0; synced == required {
					t.Errorf("the missing owner of what names no installation was synced: %v", synced)
				}
				if told := c.seen.with("home", controller.OperationSecondary) > 0; told == required {
					t.Errorf("the owner of what names no installation was told: %v", told)
				}
				_, key, err := c.DecomposeKubeSecondaryResource(owned(newPage("x", ""), "home"))
				if must(t, err); (key == "") != required {
					t.Errorf("its owner is %q", key)
				}
			})
		})
	}
}

func TestKumoriGarbageSecondariesOverriddenReplacesTheDefault(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		departed(t, sites, "gone")
		must(t, pages.Create(t.Context(), owned(newPage("a", ""), "gone")))
		var collected, early atomic.Int32
		c := kumori{sites: sites, pages: pages, resync: 100 * time.Millisecond}.collecting(func(c *collecting) {
			if !c.secondaries.any(func(any) bool { return true })() {
				early.Add(1)
			}
			collected.Add(1)
		})
		runKumori(t, c)
		natstest.Eventually(t, "it is called each interval", func() bool { return collected.Load() >= 3 })
		if early.Load() != 0 {
			t.Error("it was called before the secondaries were known")
		}
		if ops := c.seen.of("gone"); len(ops) != 0 {
			t.Errorf("the default enqueued all the same: %v", ops)
		}
	})
}

func TestKumoriGarbageSecondariesOverriddenMayCallTheDefault(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		departed(t, sites, "gone")
		must(t, pages.Create(t.Context(), owned(newPage("a", ""), "gone")))
		c := kumori{sites: sites, pages: pages}.collecting(func(c *collecting) { c.kumoriRuntime.GarbageSecondaries() })
		runKumori(t, c)
		natstest.Eventually(t, "the missing owner is synced", func() bool {
			return c.seen.with("gone", controller.OperationDelete) == 1
		})
	})
}

func TestKumoriPanicInGarbageSecondariesIsLoggedAndItComesBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var collected atomic.Int32
		c := kumori{sites: w.sites(), resync: 50 * time.Millisecond}.collecting(func(*collecting) {
			if collected.Add(1) == 1 {
				panic("the first time")
			}
		})
		runKumori(t, c)
		natstest.Eventually(t, "the next interval", func() bool { return collected.Load() >= 2 })
	})
}

func TestKumoriBrakeLetsGoWhenAllIsBackAlsoWithGarbageSecondariesOverridden(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		first := kumori{sites: sites}.custom(nil)
		r := runKumori(t, first)
		name := func(i int) string { return fmt.Sprintf("site-%d", i) }
		for i := range brake.Least {
			must(t, sites.Create(t.Context(), newSite(name(i), "")))
		}
		for i := range brake.Least {
			natstest.Eventually(t, name(i)+" is synced", func() bool { return first.seen.count(name(i)) > 0 })
		}
		r.halt()
		for i := range brake.Least {
			must(t, sites.Delete(t.Context(), name(i)))
		}
		again := w.sites()
		second := kumori{sites: again}.collecting(func(*collecting) {})
		runKumori(t, second)
		natstest.Eventually(t, "the brake holds the deletes", func() bool { return second.Stats().Brake.Held == brake.Least })
		for i := range brake.Least {
			must(t, again.Create(t.Context(), newSite(name(i), "")))
		}
		natstest.Eventually(t, "the brake lets go", func() bool { return !second.Stats().Brake.Engaged })
		for i := range brake.Least {
			if n := second.seen.with(name(i), controller.OperationDelete); n != 0 {
				t.Errorf("%s was synced with Delete %d times", name(i), n)
			}
		}
	})
}

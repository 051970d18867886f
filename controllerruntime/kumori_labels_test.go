package controllerruntime

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// labelled names an owner as the original Kumori runtime does: by the labels alone, and without an installation.
func labelled[T metav1.Object](obj T, key string) T {
	obj.SetAnnotations(nil)
	obj.SetLabels(map[string]string{OwnerkindLabel: "Site", OwnerKeyLabel: entity.OwnerLabelValue(key)})
	return obj
}

// TestKumoriGarbageThatLabelsAloneNameIsCollected, in NATS and in Kubernetes alike.
func TestKumoriGarbageThatLabelsAloneNameIsCollected(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		long := strings.Repeat("of-a-long-name-", 5) + "x"
		theirs := labelled(configMap("theirs", ""), "theirs")
		theirs.Labels[entity.OwnerInstanceLabel] = "another-installation"
		_, informer := kubeInformer(t, labelled(configMap("settings", ""), "gone-too"), theirs,
			labelled(configMap("of-home", ""), "home"), labelled(configMap("of-long", ""), long),
			labelled(configMap("of-nobody", ""), long+"-gone"))
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite(long, "")))
		for _, key := range []string{"gone", "gone-too"} { // the markers of their deletes tell that they were here
			must(t, sites.Create(t.Context(), newSite(key, "")))
			must(t, sites.Delete(t.Context(), key))
		}
		must(t, pages.Create(t.Context(), labelled(newPage("a", ""), "gone")))
		c := kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "the missing owners are synced", func() bool {
			return c.seen.with("gone", controller.OperationDelete) == 1 &&
				c.seen.with("gone-too", controller.OperationDelete) == 1
		})
		natstest.Eventually(t, "and those that exist", func() bool {
			return c.seen.count("home") > 0 && c.seen.count(long) > 0
		})
		for _, key := range []string{"home", long, "theirs"} {
			if n := c.seen.with(key, controller.OperationDelete); n != 0 {
				t.Errorf("%q was synced with Delete %d times", key, n)
			}
		}
		if n := c.Stats().Orphaned; n != 3 {
			t.Errorf("%d orphans, want 3: of whom there is a hash alone, nobody can be asked for", n)
		}
	})
}

// TestKumoriGarbageOfAnOwnerThatNeverWasHereIsLeft: without an installation's name it may be that of another one, which
// shares the cluster and the kind.
func TestKumoriGarbageOfAnOwnerThatNeverWasHereIsLeft(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		must(t, sites.Create(t.Context(), newSite("ours", "")))
		must(t, sites.Delete(t.Context(), "ours"))
		_, informer := kubeInformer(t, labelled(configMap("of-ours", ""), "ours"),
			labelled(configMap("of-theirs", ""), "theirs"), labelled(configMap("more-of-theirs", ""), "theirs"))
		c := kumori{
			sites: sites, secondaries: []cache.SharedIndexInformer{informer}, resync: 50 * time.Millisecond,
		}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "what was here is synced", func() bool {
			return c.seen.with("ours", controller.OperationDelete) > 0
		})
		natstest.Eventually(t, "the others are counted", func() bool {
			return c.Stats().Orphaned == 3 && c.Stats().Sweeps > 2
		})
		if n := c.seen.with("theirs", controller.OperationDelete); n > 0 || c.Stats().Brake.Engaged {
			t.Errorf("it was synced with Delete %d times, and the brake is %+v", n, c.Stats().Brake)
		}
	})
}

// TestKumoriSecondaryThatLabelsAloneNameIsItsOwners: its events reach the owner, and so does Decompose.
func TestKumoriSecondaryThatLabelsAloneNameIsItsOwners(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		server, informer := kubeInformer(t)
		c := kumori{sites: sites, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
		m := labelled(configMap("settings", "one"), "home")
		server.Add(m.DeepCopy())
		natstest.Eventually(t, "its event reaches the owner", func() bool {
			return c.seen.with("home", controller.OperationSecondary) == 1
		})
		if _, key, err := c.DecomposeKubeSecondaryResource(m); err != nil || key != "home" {
			t.Errorf("the owner is %q, %v", key, err)
		}
		m.Labels[entity.OwnerInstanceLabel] = "another-installation"
		if _, key, err := c.DecomposeKubeSecondaryResource(m); err != nil || key != "" {
			t.Errorf("the owner of another installation's is %q, %v", key, err)
		}
	})
}

// TestKumoriHandleSecondaryAlsoGetsWhatHadAnotherLabel, so that who lost it hears of that.
func TestKumoriHandleSecondaryAlsoGetsWhatHadAnotherLabel(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		server, informer := kubeInformer(t, labelled(configMap("settings", ""), "home"))
		c := kumori{sites: sites, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
		runKumori(t, c)
		for _, key := range []string{"home", "other"} {
			must(t, sites.Create(t.Context(), newSite(key, "")))
			natstest.Eventually(t, key+" is synced", func() bool { return c.seen.with(key, controller.OperationPut) == 1 })
		}
		before := c.seen.with("home", controller.OperationSecondary)
		server.Modify(labelled(configMap("settings", ""), "other"))
		natstest.Eventually(t, "both are synced", func() bool {
			return c.seen.with("home", controller.OperationSecondary) > before &&
				c.seen.with("other", controller.OperationSecondary) > 0
		})
	})
}

// rawLabelled names an owner in NATS as the original does there, where nothing checks what a label may hold.
func rawLabelled(name, key string) *page {
	p := newPage(name, "")
	p.Labels = map[string]string{OwnerkindLabel: "Site", OwnerKeyLabel: key}
	return p
}

// notALabelValue is a key that a label may not hold in Kubernetes.
var notALabelValue = strings.Repeat("of-a-long-name-", 5) + "x"

// TestKumoriOwnersThatLabelsAloneNameAreOwners of what is in NATS and in Kubernetes: their events reach them, they are
// found by Decompose, OwnerOf and OwnedBy, and the sweep asks for those that are gone.
func TestKumoriOwnersThatLabelsAloneNameAreOwners(t *testing.T) {
	for _, key := range []string{"home", notALabelValue} {
		t.Run(key, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				server, informer := kubeInformer(t)
				c := kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer},
					resync: 50 * time.Millisecond}.custom(nil)
				runKumori(t, c)
				must(t, sites.Create(ctx, newSite(key, "")))
				natstest.Eventually(t, "the owner is synced", func() bool { return c.seen.count(key) > 0 })
				woken := func() int { return c.seen.with(key, controller.OperationSecondary) }

				before := woken()
				must(t, pages.Create(ctx, rawLabelled("a", key)))
				natstest.Eventually(t, "the page's event reaches it", func() bool { return woken() > before })
				before = woken()
				server.Add(labelled(configMap("settings", ""), key))
				natstest.Eventually(t, "the config map's event reaches it", func() bool { return woken() > before })

				for _, obj := range []metav1.Object{rawLabelled("a", key), labelled(configMap("settings", ""), "home")} {
					want := obj.GetLabels()[OwnerKeyLabel]
					if _, got, err := c.DecomposeKubeSecondaryResource(obj); err != nil || got != want {
						t.Errorf("Decompose of %T finds %q, %v", obj, got, err)
					}
					if kind, got, ok := controller.OwnerOf(obj); !ok || kind != "Site" || got != want {
						t.Errorf("OwnerOf of %T is %s %q, %v", obj, kind, got, ok)
					}
				}
				owned, err := pages.Lister().OwnedBy("Site", key)
				if must(t, err); len(owned) != 1 {
					t.Errorf("the lister finds %d pages, want 1", len(owned))
				}
				for _, s := range c.engine.Sources()[1:] {
					objects, err := s.(source.Owned).OwnedBy(key)
					if must(t, err); len(objects) != 1 {
						t.Errorf("%s finds %d objects, want 1", s, len(objects))
					}
				}
				if c.Stats().Foreign > 0 {
					t.Errorf("%d objects count as another installation's", c.Stats().Foreign)
				}

				must(t, sites.Delete(ctx, key))
				natstest.Eventually(t, "it is synced once it is gone", func() bool {
					return c.seen.with(key, controller.OperationDelete) > 0 && c.Stats().TornDown > 0
				})
				garbage := c.seen.with(key, controller.OperationDelete)
				natstest.Eventually(t, "and again as long as there is garbage", func() bool {
					return c.seen.with(key, controller.OperationDelete) > garbage
				})
			})
		})
	}
}

// TestKumoriALabelThatReadsLikeAHashIsNoKey: a primary of that name must not get what belongs to another one.
func TestKumoriALabelThatReadsLikeAHashIsNoKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		hash := entity.OwnerLabelValue(notALabelValue)
		obj := rawLabelled("a", hash)
		if !entity.IsOwnedBy(obj, "Site", notALabelValue) || entity.IsOwnedBy(obj, "Site", hash) {
			t.Errorf("it is not of the one whose hash that is")
		}
		if _, key, ok := controller.OwnerOf(obj); ok {
			t.Errorf("its owner is %q", key)
		}
	})
}

// TestKumoriDecomposeWorksBeforeRun, where the id of the installation is not known yet, and where the arguments of the
// runtime were wrong.
func TestKumoriDecomposeWorksBeforeRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		named := configMap("of-an-installation", "")
		entity.SetOwner(named, "Site", "home", "an-installation")
		theirs := configMap("of-another-kind", "")
		entity.SetOwner(theirs, "Shop", "home", "an-installation")
		for name, c := range map[string]*custom{
			"ready":      kumori{sites: w.sites()}.custom(nil),
			"no primary": kumori{kind: "Site"}.custom(nil),
		} {
			for obj, want := range map[metav1.Object]string{
				named: "home", labelled(configMap("labelled", ""), "home"): "home",
				owned(configMap("owned", ""), "home"): "home", theirs: "", configMap("free", ""): "",
			} {
				for _, handed := range []any{obj, cache.DeletedFinalStateUnknown{Obj: obj}} {
					got, key, err := c.DecomposeKubeSecondaryResource(handed)
					if err != nil || got != obj || key != want {
						t.Errorf("%s: %T of %s is %q's, %v; want %q", name, handed, obj.GetName(), key, err, want)
					}
				}
			}
			if _, _, err := c.DecomposeKubeSecondaryResource("no object"); err == nil {
				t.Errorf("%s: no error for what is no object", name)
			}
		}
	})
}

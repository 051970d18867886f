package controllerruntime

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestKumoriDefaultHandleSecondaryEnqueuesTheOwnerOfANatsSecondary(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages, routes := w.sites(), w.pages(), w.client("Route", "routes")
		c := kumori{sites: sites, pages: pages, routes: routes}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })

		woken := 0
		wakes := func(what string) {
			t.Helper()
			natstest.Eventually(t, "the owner is synced: "+what, func() bool {
				return c.seen.with("home", controller.OperationSecondary) > woken
			})
			woken = c.seen.with("home", controller.OperationSecondary)
		}
		must(t, pages.Create(t.Context(), owned(newPage("a", "one"), "home")))
		wakes("a page was created")
		must(t, pages.Patch(t.Context(), "a", []byte(`{"spec":{"title":"two"}}`)))
		wakes("it was updated")
		p, err := pages.Get(t.Context(), "a")
		must(t, err)
		p.Status.Ready = true
		must(t, pages.UpdateStatus(t.Context(), p))
		wakes("its status was updated")
		must(t, pages.Delete(t.Context(), "a"))
		wakes("it was deleted")
		must(t, routes.Create(t.Context(), owned(newSite("r", ""), "home")))
		wakes("a secondary in another slot was created")
	})
}

func TestKumoriDefaultHandleSecondaryEnqueuesTheOwnerOfAKubernetesSecondary(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		server, informer := kubeInformer(t)
		c := kumori{sites: sites, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })

		woken := 0
		wakes := func(what string) {
			t.Helper()
			natstest.Eventually(t, "the owner is synced: "+what, func() bool {
				return c.seen.with("home", controller.OperationSecondary) > woken
			})
			woken = c.seen.with("home", controller.OperationSecondary)
		}
		m := owned(configMap("settings", "one"), "home")
		server.Add(m.DeepCopy())
		wakes("created")
		m.Data["value"] = "two"
		server.Modify(m.DeepCopy())
		wakes("updated")
		server.Delete(m.DeepCopy())
		wakes("deleted")
		server.Add(m.DeepCopy())
		wakes("created again")
		server.DeleteDropWatch(m.DeepCopy())
		server.ResetWatch() // the watch is lost with the delete, and the new list lacks the object
		wakes("deleted while nobody watched")
	})
}

func TestKumoriDefaultHandleSecondaryEnqueuesTheOwnerOfAnExternalResource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
		c.HandleSecondary(external.Resource{ID: "17"}) // owned by nobody
		c.HandleSecondary(external.Resource{ID: "18", OwnerKey: "home", Version: "3"})
		natstest.Eventually(t, "the owner is synced", func() bool {
			return c.seen.with("home", controller.OperationSecondary) == 1
		})
	})
}

func TestKumoriDefaultHandleSecondaryIgnoresWhatIsNotOurs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		c := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		must(t, sites.Create(t.Context(), newSite("last", "one")))
		natstest.Eventually(t, "both are synced", func() bool {
			return c.seen.count("home") == 1 && c.seen.count("last") == 1
		})

		theirs := newPage("of-another-kind", "")
		entity.SetOwner(theirs, "Shop", "home", "")
		elsewhere := newPage("of-another-installation", "")
		entity.SetOwner(elsewhere, "Site", "home", "another")
		for _, p := range []*page{newPage("of-nobody", ""), theirs, elsewhere, owned(newPage("ours", ""), "last")} {
			must(t, pages.Create(t.Context(), p))
		}
		c.HandleSecondary("no object")
		// Events of one informer come in order, so what was before would have been enqueued before.
		natstest.Eventually(t, "the owner of the last is synced", func() bool {
			return c.seen.with("last", controller.OperationSecondary) == 1
		})
		if n := c.seen.with("home", controller.OperationSecondary); n != 0 {
			t.Errorf("home was enqueued %d times for what it does not own", n)
		}
	})
}

func TestKumoriHandleSecondaryGetsTheObjectItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		server, informer := kubeInformer(t)
		l := kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer}}.listening(nil)
		runKumori(t, l)
		hears := func(what string, holds func(p *page) bool) {
			t.Helper()
			natstest.Eventually(t, what, l.secondaries.any(func(obj any) bool {
				p, ok := obj.(*page)
				return ok && p.Name == "a" && holds(p)
			}))
		}
		must(t, pages.Create(t.Context(), owned(newPage("a", "one"), "home")))
		hears("the page that was created", func(p *page) bool { return p.Spec.Title == "one" })
		must(t, pages.Patch(t.Context(), "a", []byte(`{"spec":{"title":"two"}}`)))
		hears("the page that was updated", func(p *page) bool { return p.Spec.Title == "two" })
		p, err := pages.Get(t.Context(), "a")
		must(t, err)
		p.Status.Ready = true
		must(t, pages.UpdateStatus(t.Context(), p))
		hears("the page with its new status", func(p *page) bool { return p.Status.Ready })
		must(t, pages.Patch(t.Context(), "a", []byte(`{"spec":{"title":"three"}}`)))
		hears("an updated page with the status it has", func(p *page) bool {
			return p.Spec.Title == "three" && p.Status.Ready
		})
		revision := func() string {
			p, err := pages.Get(t.Context(), "a")
			must(t, err)
			return p.ResourceVersion
		}()
		must(t, pages.Delete(t.Context(), "a"))
		hears("the last known page, at the revision of its delete", func(p *page) bool {
			return p.Spec.Title == "three" && p.ResourceVersion > revision
		})

		m := owned(configMap("settings", "one"), "home")
		server.Add(m.DeepCopy())
		natstest.Eventually(t, "the config map", l.secondaries.any(func(obj any) bool {
			m, ok := obj.(*corev1.ConfigMap)
			return ok && m.Data["value"] == "one"
		}))
		server.DeleteDropWatch(m.DeepCopy())
		server.ResetWatch()
		natstest.Eventually(t, "the unknown final state", l.secondaries.any(func(obj any) bool {
			unknown, ok := obj.(cache.DeletedFinalStateUnknown)
			return ok && unknown.Key == "shop/settings" && unknown.Obj.(*corev1.ConfigMap).Data["value"] == "one"
		}))
	})
}

func TestKumoriHandleSecondaryGetsTheStatusThatWasThereAtTheStart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		const many = 200 // so that documents and records are listed in either order
		name := func(i int) string { return fmt.Sprintf("page-%d", i) }
		for i := range many {
			p := newPage(name(i), "")
			must(t, pages.Create(t.Context(), p))
			p.Status.Ready = true
			must(t, pages.UpdateStatus(t.Context(), p))
		}
		l := kumori{sites: sites, pages: w.pages()}.listening(nil)
		runKumori(t, l)
		for i := range many {
			natstest.Eventually(t, name(i)+" with its status", l.secondaries.any(func(obj any) bool {
				return obj.(*page).Name == name(i) && obj.(*page).Status.Ready
			}))
		}
	})
}

func TestKumoriHandleSecondaryHearsOfASecondaryThatChangesItsOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		for _, name := range []string{"old", "new"} {
			must(t, sites.Create(t.Context(), newSite(name, "")))
		}
		c := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, c)
		p := owned(newPage("a", ""), "old")
		must(t, pages.Create(t.Context(), p))
		natstest.Eventually(t, "the first owner is synced", func() bool {
			return c.seen.with("old", controller.OperationSecondary) == 1
		})
		must(t, pages.Update(t.Context(), owned(p, "new")))
		natstest.Eventually(t, "both owners are synced", func() bool {
			return c.seen.with("old", controller.OperationSecondary) == 2 &&
				c.seen.with("new", controller.OperationSecondary) == 1
		})
	})
}

func TestKumoriHandleSecondaryCanSuppressAndRedirect(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		server, informer := kubeInformer(t)
		var l *listening
		l = kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer}}.listening(func(obj any) {
			secondary, _, err := l.DecomposeKubeSecondaryResource(obj)
			if err == nil && strings.HasPrefix(secondary.GetName(), "redirected") {
				l.EnqueueKey("elsewhere", controller.OperationSecondary)
			}
		})
		for _, name := range []string{"home", "elsewhere"} {
			must(t, sites.Create(t.Context(), newSite(name, "")))
		}
		runKumori(t, l)
		natstest.Eventually(t, "both are synced", func() bool {
			return l.seen.count("home") > 0 && l.seen.count("elsewhere") > 0
		})

		must(t, pages.Create(t.Context(), owned(newPage("suppressed", ""), "home")))
		server.Add(owned(configMap("suppressed", ""), "home"))
		named := func(name string, kube bool) func() bool {
			return l.secondaries.any(func(obj any) bool {
				_, isKube := obj.(*corev1.ConfigMap)
				return obj.(metav1.Object).GetName() == name && isKube == kube
			})
		}
		natstest.Eventually(t, "the suppressed ones are heard of", func() bool {
			return named("suppressed", true)() && named("suppressed", false)()
		})
		must(t, pages.Create(t.Context(), owned(newPage("redirected", ""), "home")))
		natstest.Eventually(t, "the page's is redirected", func() bool {
			return l.seen.with("elsewhere", controller.OperationSecondary) == 1
		})
		server.Add(owned(configMap("redirected", ""), "home"))
		natstest.Eventually(t, "the config map's too", func() bool {
			return l.seen.with("elsewhere", controller.OperationSecondary) == 2
		})
		if n := l.seen.with("home", controller.OperationSecondary); n != 0 {
			t.Errorf("the owner was enqueued %d times, though HandleSecondary did not", n)
		}
	})
}

func TestKumoriPanicInHandleSecondaryDoesNotStopTheOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		l := kumori{sites: sites, pages: pages}.listening(func(obj any) {
			if obj.(*page).Name == "bad" {
				panic("bad page")
			}
		})
		runKumori(t, l)
		must(t, pages.Create(t.Context(), newPage("bad", "")))
		must(t, pages.Create(t.Context(), newPage("good", "")))
		natstest.Eventually(t, "the next page is heard of", l.secondaries.any(func(obj any) bool {
			return obj.(*page).Name == "good"
		}))
	})
}

func TestKumoriTertiariesReachHandleTertiaryOnlyAndEnqueueNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, themes := w.sites(), w.client("Theme", "themes")
		server, informer := kubeInformer(t)
		l := kumori{sites: sites, themes: themes, tertiaries: []cache.SharedIndexInformer{informer}}.listening(nil)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		runKumori(t, l)
		natstest.Eventually(t, "home is synced", func() bool { return l.seen.count("home") == 1 })

		dark := owned(newSite("dark", "one"), "home") // even one that names an owner is none's secondary
		must(t, themes.Create(t.Context(), dark))
		natstest.Eventually(t, "the theme", l.tertiaries.any(func(obj any) bool {
			theme, ok := obj.(*theme)
			return ok && theme.Spec.Title == "one"
		}))
		dark.Status.Ready = true
		must(t, themes.UpdateStatus(t.Context(), dark))
		natstest.Eventually(t, "the theme's status", l.tertiaries.any(func(obj any) bool {
			theme, ok := obj.(*theme)
			return ok && theme.Status.Ready
		}))
		server.Add(owned(configMap("settings", ""), "home"))
		natstest.Eventually(t, "the config map", l.tertiaries.any(func(obj any) bool {
			_, ok := obj.(*corev1.ConfigMap)
			return ok
		}))
		l.EnqueueKey("home", controller.OperationManual)
		natstest.Eventually(t, "the next key is synced", func() bool {
			return l.seen.with("home", controller.OperationManual) == 1
		})
		if ops := l.seen.of("home"); len(ops) != 2 {
			t.Errorf("a tertiary enqueued: %v", ops)
		}
		if l.secondaries.any(func(any) bool { return true })() {
			t.Error("a tertiary reached HandleSecondary")
		}
	})
}

// TestKumoriAKeyThatFailedForGoodIsSyncedWhenTheThemeThatItLacksAppears: HandleTertiary says whom it concerns.
func TestKumoriAKeyThatFailedForGoodIsSyncedWhenTheThemeThatItLacksAppears(t *testing.T) {
	for name, wake := range map[string]func(l *listening){
		"at once":       func(l *listening) { l.EnqueueKey("home", controller.OperationTertiary) },
		"after a while": func(l *listening) { l.EnqueueKeyAfter("home", controller.OperationTertiary, time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, themes := w.sites(), w.client("Theme", "themes")
				l := &enqueuing{listening: kumori{sites: sites, themes: themes}.listening(nil), wake: wake}
				l.SetCustomController(l)
				l.sync = func(string) error {
					if _, err := themes.Lister().Get("dark"); err != nil {
						return controller.TerminalError(err)
					}
					return nil
				}
				runKumori(t, l)
				must(t, sites.Create(t.Context(), newSite("home", "")))
				natstest.Eventually(t, "home failed for good", func() bool { return l.Stats().Parked == 1 })
				must(t, themes.Create(t.Context(), newSite("dark", "")))
				natstest.Eventually(t, "home is synced", func() bool { return l.Stats().Parked == 0 })
				if n := l.seen.with("home", controller.OperationTertiary); n != 1 || l.seen.count("home") != 2 {
					t.Errorf("it was synced for %v", l.seen.of("home"))
				}
			})
		})
	}
}

// enqueuing enqueues whom a tertiary concerns.
type enqueuing struct {
	*listening
	wake func(l *listening)
}

func (e *enqueuing) HandleTertiary(any) { e.wake(e.listening) }

func TestKumoriTertiariesAreNeverGarbage(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, themes := w.sites(), w.client("Theme", "themes")
		must(t, themes.Create(t.Context(), owned(newSite("dark", ""), "gone")))
		c := kumori{sites: sites, themes: themes}.custom(nil) // and HandleTertiary is optional
		runKumori(t, c)
		natstest.Eventually(t, "garbage was collected", func() bool { return c.Stats().Sweeps > 0 })
		c.EnqueueKey("last", controller.OperationPut)
		natstest.Eventually(t, "the next key is synced", func() bool { return c.seen.count("last") == 1 })
		if n := c.seen.count("gone"); n != 0 {
			t.Errorf("the owner that a tertiary names was synced %d times", n)
		}
	})
}

func TestKumoriDecomposeKubeSecondaryResource(t *testing.T) {
	w := newWorld(t)
	c := kumori{sites: w.sites()}.custom(nil)
	runKumori(t, c)
	natstest.Eventually(t, "it runs", func() bool { return c.Stats().Leading })

	ownedMap, freeMap := configMap("owned", ""), configMap("free", "")
	c.SetOwner(ownedMap, "home")
	theirs, elsewhere := configMap("theirs", ""), configMap("elsewhere", "")
	entity.SetOwner(theirs, "Shop", "home", "")
	entity.SetOwner(elsewhere, "Site", "home", "another")
	ownedPage := newPage("a", "")
	c.SetOwner(ownedPage, "home")
	var nilPage *page
	for name, test := range map[string]struct {
		obj     any
		want    metav1.Object
		key     string
		isError bool
	}{
		"owned Kubernetes object": {obj: ownedMap, want: ownedMap, key: "home"},
		"owned NATS entity":       {obj: ownedPage, want: ownedPage, key: "home"},
		"last state of an owned object": {obj: cache.DeletedFinalStateUnknown{Key: "shop/owned",
			Obj: ownedMap}, want: ownedMap, key: "home"},
		"no owner": {obj: freeMap, want: freeMap},
		"last state without an owner": {obj: cache.DeletedFinalStateUnknown{Key: "shop/free",
			Obj: freeMap}, want: freeMap},
		"owner of another kind":         {obj: theirs, want: theirs},
		"owner of another installation": {obj: elsewhere, want: elsewhere},
		"no object":                     {obj: "home", isError: true},
		"nil":                           {obj: nil, isError: true},
		"nil pointer":                   {obj: nilPage, isError: true},
		"last state that is not known": {obj: cache.DeletedFinalStateUnknown{Key: "shop/lost"},
			isError: true},
		"external resource, which is no object too": {obj: external.Resource{OwnerKey: "home"}, isError: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, key, err := c.DecomposeKubeSecondaryResource(test.obj)
			if (err != nil) != test.isError {
				t.Errorf("error %v, want one: %v", err, test.isError)
			}
			if got != test.want || key != test.key {
				t.Errorf("got %v, %q; want %v, %q", got, key, test.want, test.key)
			}
		})
	}
}

func TestKumoriSetOwnerNamesKindKeyAndInstance(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := kumori{sites: w.sites()}.custom(nil)
		runKumori(t, c)
		natstest.Eventually(t, "it runs", func() bool { return c.Stats().Leading })
		for _, obj := range []metav1.Object{newPage("a", ""), configMap("settings", "")} {
			c.SetOwner(obj, "home")
			kind, key, ok := controller.OwnerOf(obj)
			if !ok || kind != "Site" || key != "home" || entity.InstanceOf(obj) == "" {
				t.Errorf("annotations %v", obj.GetAnnotations())
			}
			if labels := obj.GetLabels(); labels[controller.OwnerkindLabel] != "Site" ||
				labels[controller.OwnerKeyLabel] != "home" {
				t.Errorf("labels %v", labels)
			}
		}
	})
}

package controllerruntime

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func (h *heard) count(holds func(obj any) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, obj := range h.objs {
		if holds(obj) {
			n++
		}
	}
	return n
}

// TestKumoriOneClientInTwoSlotsDeliversOnce to each handler, and so does an informer.
func TestKumoriOneClientInTwoSlotsDeliversOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		server, informer := kubeInformer(t)
		informers := []cache.SharedIndexInformer{informer, informer}
		l := kumori{sites: sites, pages: pages, routes: pages, themes: pages,
			secondaries: informers, tertiaries: informers}.listening(nil)
		runKumori(t, l)
		must(t, pages.Create(t.Context(), newPage("a", "")))
		server.Add(configMap("a", ""))
		must(t, pages.Create(t.Context(), newPage("last", "")))
		server.Add(configMap("last", ""))
		of := func(name string, kube bool) func(obj any) bool {
			return func(obj any) bool {
				_, isMap := obj.(metaMap)
				return isMap == kube && obj.(metav1.Object).GetName() == name
			}
		}
		for what, h := range map[string]*heard{"HandleSecondary": &l.secondaries, "HandleTertiary": &l.tertiaries} {
			for _, kube := range []bool{true, false} {
				natstest.Eventually(t, what+" hears of the last", func() bool { return h.count(of("last", kube)) > 0 })
				if n := h.count(of("a", kube)); n != 1 {
					t.Errorf("%s was called %d times for one object (of Kubernetes: %v)", what, n, kube)
				}
			}
		}
		if n := len(l.engine.Sources()); n != 5 {
			t.Errorf("%d sources, want the primary and four", n)
		}
	})
}

// TestKumoriAPrimaryInASecondarySlotHasToBeSaid: it would own itself. As a tertiary it is only read.
func TestKumoriAPrimaryInASecondarySlotHasToBeSaid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		errs := make(chan error, 1)
		kumori{sites: sites, pages: sites}.custom(nil).Run(1, nil, errs)
		if err := <-errs; err == nil {
			t.Error("no error")
		}
		l := kumori{sites: sites, themes: sites}.listening(nil)
		runKumori(t, l)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is told of as a tertiary", func() bool {
			return l.tertiaries.count(func(any) bool { return true }) >= 1
		})
		natstest.Eventually(t, "and synced as a primary", func() bool {
			return l.seen.with("home", controller.OperationPut) == 1
		})
	})
}

// comparing implements HandleTertiaryUpdate.
type comparing struct {
	*listening
	updates heard
}

func (c *comparing) HandleTertiaryUpdate(oldObj, newObj any) { c.updates.add([2]any{oldObj, newObj}) }

// TestKumoriHandleTertiaryUpdateLearnsOfTheOldObject, and HandleTertiary of what is added or deleted.
func TestKumoriHandleTertiaryUpdateLearnsOfTheOldObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites, themes := w.sites(), w.client("Theme", "themes")
		server, informer := kubeInformer(t)
		c := &comparing{listening: kumori{sites: sites, themes: themes,
			tertiaries: []cache.SharedIndexInformer{informer}}.listening(nil)}
		c.SetCustomController(c)
		runKumori(t, c)
		title := func(obj any) string {
			switch obj := obj.(type) {
			case *theme:
				return obj.Spec.Title
			case metaMap:
				return obj.Data["value"]
			}
			return ""
		}
		hears := func(what, before, after string) {
			t.Helper()
			natstest.Eventually(t, what, c.updates.any(func(obj any) bool {
				pair := obj.([2]any)
				return title(pair[0]) == before && title(pair[1]) == after
			}))
		}
		must(t, themes.Create(ctx, newSite("dark", "one")))
		natstest.Eventually(t, "the theme", c.tertiaries.any(func(obj any) bool { return title(obj) == "one" }))
		must(t, themes.Patch(ctx, "dark", []byte(`{"spec":{"title":"two"}}`)))
		hears("the theme as it was and as it is", "one", "two")
		dark, err := themes.Get(ctx, "dark")
		must(t, err)
		dark.Status.Ready = true
		must(t, themes.UpdateStatus(ctx, dark))
		natstest.Eventually(t, "a change of its status", c.updates.any(func(obj any) bool {
			pair := obj.([2]any)
			before, ok := pair[0].(*theme)
			return ok && !before.Status.Ready && pair[1].(*theme).Status.Ready
		}))
		server.Add(configMap("settings", "three"))
		natstest.Eventually(t, "the config map", c.tertiaries.any(func(obj any) bool { _, ok := obj.(metaMap); return ok }))
		server.Modify(configMap("settings", "four"))
		hears("the config map as it was and as it is", "three", "four")
		must(t, themes.Delete(ctx, "dark"))
		natstest.Eventually(t, "its delete", func() bool {
			return c.tertiaries.count(func(obj any) bool { _, ok := obj.(*theme); return ok }) == 2
		})
		if n := c.tertiaries.count(func(any) bool { return true }); n != 3 {
			t.Errorf("HandleTertiary was called %d times, want 3: for what was added and deleted", n)
		}
	})
}

type metaMap = *corev1.ConfigMap

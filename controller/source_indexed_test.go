package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// indexedByTitle is an index of sites by their title, which stands for the key of what they refer to.
func indexedByTitle(cfg *entity.Config) {
	cfg.Indexes = []entity.Index{entity.WithIndex("title", func(s *site) []string { return []string{s.Spec.Title} })}
}

// TestAnEventWakesThePrimariesThatReferToItsObject, and looks at no others: in NATS and in Kubernetes.
func TestAnEventWakesThePrimariesThatReferToItsObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, themes, k := w.client("Site", "sites", indexedByTitle), w.client("Theme", "themes"), newCluster(t)
		ctx := t.Context()
		for i := range 20 {
			must(t, sites.Create(ctx, newSite(fmt.Sprint("site-", i), fmt.Sprint("theme-", i%5))))
		}
		must(t, sites.Create(ctx, newSite("mapped", "shop/settings")))
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), WatchesIndexed(themes, "title"),
			WatchesKubeIndexed(k.informer, "title"))
		must(t, err)
		w.run(c)
		wakes := func(what string, event func(), want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			before := len(seen.keys())
			event()
			time.Sleep(time.Second)
			got := map[string]int{}
			for _, key := range seen.keys()[before:] {
				got[key]++
			}
			for _, key := range want {
				if got[key]--; got[key] != 0 {
					t.Errorf("%s: %s was reconciled %d times", what, key, got[key]+1)
				}
				delete(got, key)
			}
			if len(got) != 0 {
				t.Errorf("%s woke others: %v", what, got)
			}
		}
		wakes("a theme comes", func() { must(t, themes.Create(ctx, newSite("theme-3", ""))) },
			"site-3", "site-8", "site-13", "site-18")
		wakes("one that nothing refers to", func() { must(t, themes.Create(ctx, newSite("theme-9", ""))) })
		wakes("a primary refers to another", func() {
			must(t, sites.Patch(ctx, "site-3", []byte(`{"spec":{"title":"theme-9"}}`)))
		}, "site-3")
		wakes("a theme goes", func() { must(t, themes.Delete(ctx, "theme-9")) }, "site-3")
		wakes("a theme changes", func() { must(t, themes.Patch(ctx, "theme-3", []byte(`{"spec":{"pages":1}}`))) },
			"site-8", "site-13", "site-18")
		wakes("an object of Kubernetes", func() { k.Add(configMap("settings", "one")) }, "mapped")
	})
}

func TestAnIndexThatThePrimaryLacksIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, themes := w.client("Site", "sites", indexedByTitle), w.client("Theme", "themes")
		for name, option := range map[string]Option{
			`WatchesIndexed(Theme): the primary's kind Site has no index "theme": name it in Config.Indexes`: WatchesIndexed(
				themes, "theme"),
			"WatchesKubeIndexed: the primary's kind Site has no index": WatchesKubeIndexed(newCluster(t).informer, ""),
			"WithPrune is for Owns":     WatchesIndexed(themes, "title", WithPrune()),
			"an informer is needed":     WatchesKubeIndexed(nil, "title"),
			"a client is needed":        WatchesIndexed[*theme](nil, "title"),
			"WithDeleter and WithPrune": WatchesKubeIndexed(newCluster(t).informer, "title", WithPrune()),
		} {
			if _, err := New("sites", sites, new(calls).reconciler(nil), option); err == nil ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %q", err, name)
			}
		}
	})
}

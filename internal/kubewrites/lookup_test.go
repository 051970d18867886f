package kubewrites

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// overlaid is an overlay over a store that the test fills itself.
func overlaid() (*Overlay, cache.Store) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, cache.Indexers{})
	return NewOverlay(informer, &signs{}), informer.GetStore()
}

func version(uid, version string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"},
		Data: map[string]string{"value": version}}
	m.UID, m.ResourceVersion = types.UID(uid), version
	return m
}

// TestTheLaterOfCacheAndOwnWriteIsShown.
func TestTheLaterOfCacheAndOwnWriteIsShown(t *testing.T) {
	const key = "shop/settings"
	shown := func(o *Overlay) string {
		obj := o.Lookup(key)
		if obj == nil {
			return "none"
		}
		return string(obj.GetUID()) + obj.GetResourceVersion()
	}
	deleted := func(uid string) Write { return Write{uid: types.UID(uid)} }
	leaving := version("a", "12")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		writes []Write
		cached *corev1.ConfigMap
		want   string
	}{
		"nothing":                {nil, nil, "none"},
		"cache only":             {nil, version("a", "5"), "a5"},
		"own write only":         {[]Write{WriteOf(version("a", "5"))}, nil, "a5"},
		"cache behind":           {[]Write{WriteOf(version("a", "10"))}, version("a", "9"), "a10"},
		"cache ahead":            {[]Write{WriteOf(version("a", "10"))}, version("a", "11"), "a11"},
		"made again by somebody": {[]Write{WriteOf(version("a", "10"))}, version("b", "11"), "b11"},
		"writes overtake each other": {[]Write{WriteOf(version("a", "10")), WriteOf(version("a", "9"))}, nil,
			"a10"},
		"deleted":                        {[]Write{deleted("a")}, version("a", "10"), "none"},
		"deleted, cache shows it going":  {[]Write{deleted("a")}, leaving, "a12"},
		"deleted, made again by another": {[]Write{deleted("a")}, version("b", "11"), "b11"},
		"deleted and made again": {[]Write{deleted("a"), WriteOf(version("b", "11"))}, version("a", "10"),
			"b11"},
		"write that ends after a delete": {[]Write{deleted("a"), WriteOf(version("a", "11"))}, version("a", "10"),
			"none"},
	} {
		o, store := overlaid()
		if test.cached != nil {
			must(t, store.Add(test.cached))
		}
		for _, w := range test.writes {
			o.Add(t.Context(), key, w)
		}
		if got := shown(o); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestOwnWritesOfKubernetesObjectsAreBounded, and go as soon as the cache shows them.
func TestOwnWritesOfKubernetesObjectsAreBounded(t *testing.T) {
	o, _ := overlaid()
	for n := range kubeoverlayMost + 100 {
		o.Add(t.Context(), fmt.Sprint("shop/", n), WriteOf(version("a", fmt.Sprint(n+1))))
	}
	if n := o.Own.Len(); n > kubeoverlayMost {
		t.Errorf("%d are kept, want at most %d", n, kubeoverlayMost)
	}
	var store cache.Store
	o, store = overlaid()
	for n := range 1000 {
		m := version("a", fmt.Sprint(n+1))
		o.Add(t.Context(), "shop/settings", WriteOf(m))
		must(t, store.Update(m))
	}
	o.Add(t.Context(), "shop/other", WriteOf(version("b", "2000")))
	if n := o.Own.Len(); n != 1 {
		t.Errorf("%d writes are kept, want 1", n)
	}
}

// TestAKubeWriteLogWaitsUntilTheCacheShowsAll, and no longer than it may.
func TestAKubeWriteLogWaitsUntilTheCacheShowsAll(t *testing.T) {
	o, store := overlaid()
	log := &ownwrites.Log{}
	o.Add(ownwrites.WithLog(t.Context(), log), "shop/settings", WriteOf(version("a", "10")))
	if log.Empty() {
		t.Fatal("the log is empty")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if log.Wait(ended) == nil {
		t.Error("it did not wait")
	}
	done := make(chan error)
	go func() { done <- log.Wait(t.Context()) }()
	must(t, store.Add(version("a", "11")))
	must(t, <-done)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

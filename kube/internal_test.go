package kube

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
func overlaid() (*overlay, cache.Store) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, cache.Indexers{})
	return newOverlay(informer, &signs{}), informer.GetStore()
}

func version(uid, version string) *corev1.ConfigMap {
	m := configMap("settings", version)
	m.UID, m.ResourceVersion = types.UID(uid), version
	return m
}

// TestTheLaterOfCacheAndOwnWriteIsShown.
func TestTheLaterOfCacheAndOwnWriteIsShown(t *testing.T) {
	const key = "shop/settings"
	shown := func(o *overlay) string {
		obj := o.lookup(key)
		if obj == nil {
			return "none"
		}
		return string(obj.GetUID()) + obj.GetResourceVersion()
	}
	deleted := func(uid string) ownWrite { return ownWrite{uid: types.UID(uid)} }
	leaving := version("a", "12")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		writes []ownWrite
		cached *corev1.ConfigMap
		want   string
	}{
		"nothing":                {nil, nil, "none"},
		"cache only":             {nil, version("a", "5"), "a5"},
		"own write only":         {[]ownWrite{writeOf(version("a", "5"))}, nil, "a5"},
		"cache behind":           {[]ownWrite{writeOf(version("a", "10"))}, version("a", "9"), "a10"},
		"cache ahead":            {[]ownWrite{writeOf(version("a", "10"))}, version("a", "11"), "a11"},
		"made again by somebody": {[]ownWrite{writeOf(version("a", "10"))}, version("b", "11"), "b11"},
		"writes overtake each other": {[]ownWrite{writeOf(version("a", "10")), writeOf(version("a", "9"))}, nil,
			"a10"},
		"deleted":                        {[]ownWrite{deleted("a")}, version("a", "10"), "none"},
		"deleted, cache shows it going":  {[]ownWrite{deleted("a")}, leaving, "a12"},
		"deleted, made again by another": {[]ownWrite{deleted("a")}, version("b", "11"), "b11"},
		"deleted and made again": {[]ownWrite{deleted("a"), writeOf(version("b", "11"))}, version("a", "10"),
			"b11"},
		"write that ends after a delete": {[]ownWrite{deleted("a"), writeOf(version("a", "11"))}, version("a", "10"),
			"none"},
	} {
		o, store := overlaid()
		if test.cached != nil {
			must(t, store.Add(test.cached))
		}
		for _, w := range test.writes {
			o.add(t.Context(), key, w)
		}
		if got := shown(o); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestOwnWritesOfKubernetesObjectsAreBounded, and go as soon as the cache shows them.
func TestOwnWritesOfKubernetesObjectsAreBounded(t *testing.T) {
	o, _ := overlaid()
	for n := range overlayMost + 100 {
		o.add(t.Context(), fmt.Sprint("shop/", n), writeOf(version("a", fmt.Sprint(n+1))))
	}
	if n := o.own.Len(); n > overlayMost {
		t.Errorf("%d are kept, want at most %d", n, overlayMost)
	}
	var store cache.Store
	o, store = overlaid()
	for n := range 1000 {
		m := version("a", fmt.Sprint(n+1))
		o.add(t.Context(), "shop/settings", writeOf(m))
		must(t, store.Update(m))
	}
	o.add(t.Context(), "shop/other", writeOf(version("b", "2000")))
	if n := o.own.Len(); n != 1 {
		t.Errorf("%d writes are kept, want 1", n)
	}
}

// TestAKubeWriteLogWaitsUntilTheCacheShowsAll, and no longer than it may.
func TestAKubeWriteLogWaitsUntilTheCacheShowsAll(t *testing.T) {
	o, store := overlaid()
	log := &ownwrites.Log{}
	o.add(ownwrites.WithLog(t.Context(), log), "shop/settings", writeOf(version("a", "10")))
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

func TestNewRefusesWhatCannotWork(t *testing.T) {
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	_, err := New[*corev1.ConfigMap](nil, resource, stillInformer())
	says(t, err, "kube.New(configmaps/v1)", "a client")
	_, err = New[*corev1.ConfigMap](nil, resource, nil, WithFieldManager(""), WithDeletes(WithPropagation("sideways")))
	says(t, err, "WithFieldManager", "an informer")
	_, err = New[Object](nil, resource, stillInformer())
	says(t, err, "pointer to a struct")
}

package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/applied"
	"github.com/nagi-runtime/nagi/internal/kubesource"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestOwnWritesThatTheCacheShowsAreLetGo without any other write, and those that it never shows in the end.
func TestOwnWritesThatTheCacheShowsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := overlaid()
		kept := o.own.Len
		var shown []*corev1.ConfigMap
		for n := range 1000 {
			m := version("a", fmt.Sprint(n+1))
			m.Name = fmt.Sprint(n)
			o.add(t.Context(), source.ObjectKey(m), writeOf(m))
			shown = append(shown, m)
		}
		last := version("b", "2000")
		entity.SetOwner(last, "Site", "home", "here")
		o.add(t.Context(), "shop/settings", writeOf(last))
		if n := kept(); n != 1001 {
			t.Fatalf("%d are kept, want all", n)
		}
		for _, m := range shown {
			must(t, store.Add(m))
		}
		time.Sleep(2 * overlayPrune)
		if n := kept(); n != 1 {
			t.Errorf("%d are kept, want the one that the cache does not show", n)
		}
		time.Sleep(2 * overlayTTL)
		o.mu.Lock()
		pruning := o.pruning != nil
		o.mu.Unlock()
		if n := kept(); n != 0 || pruning {
			t.Errorf("%d are kept, and a timer: %v", n, pruning)
		}
		if names := o.notShown("Site", "home"); !reflect.DeepEqual(names, []string{"shop/settings"}) {
			t.Errorf("a teardown has to look at %v", names)
		}
	})
}

// TestATeardownLooksAtAnOwnWriteAsSoonAsItIsTooOld, and not only when it is dropped.
func TestATeardownLooksAtAnOwnWriteAsSoonAsItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := overlaid()
		o.add(t.Context(), "shop/settings", writeOf(mapOf("settings", "home")))
		time.Sleep(overlayTTL)
		if names := o.notShown("Site", "home"); len(names) > 0 {
			t.Errorf("a teardown looks at %v, though the cache may show it yet", names)
		}
		time.Sleep(time.Nanosecond)
		if names := o.notShown("Site", "home"); len(names) != 1 {
			t.Errorf("a teardown looks at %v, want the one that the cache does not show", names)
		}
		time.Sleep(2 * overlayPrune)
	})
}

// TestWhatTheCacheShowsAfterAllMakesRoomForWhatItDoesNot: a watch that stalled for long does not make a teardown
// forget what the informer does not cover.
func TestWhatTheCacheShowsAfterAllMakesRoomForWhatItDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := overlaid()
		notShown := func() int { return len(o.uncovered.Of("Site", "shop")) }
		for n := range overlayMost {
			m := mapOf(fmt.Sprint(n), "shop")
			o.add(t.Context(), source.ObjectKey(m), writeOf(m))
		}
		time.Sleep(2 * overlayTTL)
		if n := notShown(); n != overlayMost {
			t.Fatalf("%d are not shown, want all", n)
		}
		for n := range overlayMost {
			must(t, store.Add(mapOf(fmt.Sprint(n), "shop")))
		}
		uncovered := mapOf("elsewhere", "home")
		o.uncovered.Add(source.ObjectKey(uncovered), owner.Of(uncovered))
		if names := o.notShown("Site", "home"); !reflect.DeepEqual(names, []string{source.ObjectKey(uncovered)}) {
			t.Errorf("a teardown has to look at %v", names)
		}
		must(t, store.Add(uncovered))
		o.add(t.Context(), "shop/settings", writeOf(version("b", "2000")))
		time.Sleep(2 * overlayPrune)
		if n := notShown(); n != 0 {
			t.Errorf("%d that the cache shows are kept", n)
		}
		time.Sleep(2 * overlayTTL)
	})
}

// TestWhatTheInformerDoesNotCoverIsBounded, and a teardown asks the API server where there may be more.
func TestWhatTheInformerDoesNotCoverIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		more := mapOf("more", "home")
		more.APIVersion, more.Kind = "v1", "ConfigMap"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Items: []corev1.ConfigMap{*more}})
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL, Transport: transport})
	must(t, err)
	maps, err := New[*corev1.ConfigMap](client, corev1.SchemeGroupVersion.WithResource("configmaps"), stillInformer())
	must(t, err)
	for n := range applied.UncoveredMost {
		maps.own.uncovered.Add(fmt.Sprint("elsewhere/", n), owner.Owner{Kind: "Site", Key: "shop", Instance: "here"})
	}
	maps.own.uncovered.Add("elsewhere/more", owner.Owner{Kind: "Site", Key: "home", Instance: "here"})
	if n := len(maps.own.uncovered.Of("Site", "shop")); n != applied.UncoveredMost {
		t.Errorf("%d are kept, want %d", n, applied.UncoveredMost)
	}
	found, err := maps.Deleter().(kubesource.LiveOwner).OwnedLive(t.Context(), "Site", "home", nil)
	must(t, err)
	if len(found) != 1 || found[0].GetName() != "more" {
		t.Errorf("found %v", found)
	}
}

func mapOf(name, owner string) *corev1.ConfigMap {
	m := version(name, "1")
	m.Name = name
	entity.SetOwner(m, "Site", owner, "here")
	return m
}

package kubewrites

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	corev1 "k8s.io/api/core/v1"
)

// TestOwnWritesThatTheCacheShowsAreLetGo without any other write, and those that it never shows in the end.
func TestOwnWritesThatTheCacheShowsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := overlaid()
		kept := o.Own.Len
		var shown []*corev1.ConfigMap
		for n := range 1000 {
			m := version("a", fmt.Sprint(n+1))
			m.Name = fmt.Sprint(n)
			o.Add(t.Context(), source.ObjectKey(m), WriteOf(m))
			shown = append(shown, m)
		}
		last := version("b", "2000")
		entity.SetOwner(last, "Site", "home", "here")
		o.Add(t.Context(), "shop/settings", WriteOf(last))
		if n := kept(); n != 1001 {
			t.Fatalf("%d are kept, want all", n)
		}
		for _, m := range shown {
			must(t, store.Add(m))
		}
		time.Sleep(2 * pruneEvery)
		if n := kept(); n != 1 {
			t.Errorf("%d are kept, want the one that the cache does not show", n)
		}
		time.Sleep(2 * longest)
		o.mu.Lock()
		pruning := o.pruning != nil
		o.mu.Unlock()
		if n := kept(); n != 0 || pruning {
			t.Errorf("%d are kept, and a timer: %v", n, pruning)
		}
		if names := o.NotShown("Site", "home"); !reflect.DeepEqual(names, []string{"shop/settings"}) {
			t.Errorf("a teardown has to look at %v", names)
		}
	})
}

// TestATeardownLooksAtAnOwnWriteAsSoonAsItIsTooOld, and not only when it is dropped.
func TestATeardownLooksAtAnOwnWriteAsSoonAsItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := overlaid()
		o.Add(t.Context(), "shop/settings", WriteOf(mapOf("settings", "home")))
		time.Sleep(longest)
		if names := o.NotShown("Site", "home"); len(names) > 0 {
			t.Errorf("a teardown looks at %v, though the cache may show it yet", names)
		}
		time.Sleep(time.Nanosecond)
		if names := o.NotShown("Site", "home"); len(names) != 1 {
			t.Errorf("a teardown looks at %v, want the one that the cache does not show", names)
		}
		time.Sleep(2 * pruneEvery)
	})
}

// TestWhatTheCacheShowsAfterAllMakesRoomForWhatItDoesNot: a watch that stalled for long does not make a teardown
// forget what the informer does not cover.
func TestWhatTheCacheShowsAfterAllMakesRoomForWhatItDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := overlaid()
		notShown := func() int { return len(o.Uncovered.Of("Site", "shop")) }
		for n := range kubeoverlayMost {
			m := mapOf(fmt.Sprint(n), "shop")
			o.Add(t.Context(), source.ObjectKey(m), WriteOf(m))
		}
		time.Sleep(2 * longest)
		if n := notShown(); n != kubeoverlayMost {
			t.Fatalf("%d are not shown, want all", n)
		}
		for n := range kubeoverlayMost {
			must(t, store.Add(mapOf(fmt.Sprint(n), "shop")))
		}
		uncovered := mapOf("elsewhere", "home")
		o.Uncovered.Add(source.ObjectKey(uncovered), owner.Of(uncovered))
		if names := o.NotShown("Site", "home"); !reflect.DeepEqual(names, []string{source.ObjectKey(uncovered)}) {
			t.Errorf("a teardown has to look at %v", names)
		}
		must(t, store.Add(uncovered))
		o.Add(t.Context(), "shop/settings", WriteOf(version("b", "2000")))
		time.Sleep(2 * pruneEvery)
		if n := notShown(); n != 0 {
			t.Errorf("%d that the cache shows are kept", n)
		}
		time.Sleep(2 * longest)
	})
}

func mapOf(name, owner string) *corev1.ConfigMap {
	m := version(name, "1")
	m.Name = name
	entity.SetOwner(m, "Site", owner, "here")
	return m
}

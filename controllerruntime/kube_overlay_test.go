package controllerruntime

import (
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	corev1 "k8s.io/api/core/v1"
)

// TestOwnWritesThatTheCacheShowsAreLetGo without any other write, and those that it never shows in the end.
func TestOwnWritesThatTheCacheShowsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := overlaid()
		kept := func() int {
			o.mu.RLock()
			defer o.mu.RUnlock()
			return len(o.entries)
		}
		var shown []*corev1.ConfigMap
		for n := range 1000 {
			m := version("a", fmt.Sprint(n+1))
			m.Name = fmt.Sprint(n)
			o.add(objectKey(m), writeOf(m))
			shown = append(shown, m)
		}
		last := version("b", "2000")
		entity.SetOwner(last, "Site", "home", "here")
		o.add("shop/settings", writeOf(last))
		if n := kept(); n != 1001 {
			t.Fatalf("%d are kept, want all", n)
		}
		for _, m := range shown {
			must(t, store.Add(m))
		}
		time.Sleep(2 * kubeOverlayPrune)
		if n := kept(); n != 1 {
			t.Errorf("%d are kept, want the one that the cache does not show", n)
		}
		time.Sleep(2 * kubeOverlayTTL)
		if n := kept(); n != 0 || o.pruning != nil {
			t.Errorf("%d are kept, and a timer: %v", n, o.pruning != nil)
		}
		if names := o.notShown("Site", "home"); !reflect.DeepEqual(names, []string{"shop/settings"}) {
			t.Errorf("a teardown has to look at %v", names)
		}
	})
}

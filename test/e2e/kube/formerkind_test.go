package kube

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestARenamedKindTakesKubernetesObjectsOver: those of a primary that is there are its own, and those of one that is
// gone are swept; by the deleter of a handle, and by one that stands alone.
func TestARenamedKindTakesKubernetesObjectsOver(t *testing.T) {
	t.Parallel()
	for name, owns := range map[string]func(w *world) controller.Option{
		"a handle": func(w *world) controller.Option { return w.maps().Owns() },
		"a deleter": func(w *world) controller.Option {
			return controller.OwnsKube(w.start(w.typed()), controller.WithDeleter(kube.Deleter(w.dynamic, configMaps)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			here := w.instance()
			w.were("gone")
			must(t, w.sites.Create(t.Context(), newSite("home")))
			for object, key := range map[string]string{"orphan": "gone", "kept": "home"} {
				m := w.configMap(object, "one")
				entity.SetOwner(m, "Shop", key, here)
				w.createMap(m)
			}
			var seen calls
			c := w.controller(seen.reconciler(nil), owns(w), controller.WithFormerKind("Shop"))
			w.run(c)
			natstest.Eventually(t, "the orphan is swept", func() bool { return w.liveMap("orphan") == nil })
			kind, key, _ := controller.OwnerOf(w.liveMap("kept"))
			if kind != "Site" || key != "home" {
				t.Errorf("the owner of what is kept is %s %q", kind, key)
			}
			if data := w.liveMap("kept").Data; len(data) != 1 {
				t.Errorf("its data is %v", data)
			}
			natstest.Eventually(t, "nothing is degraded", func() bool { return len(c.Stats().Degraded) == 0 })
		})
	}
}

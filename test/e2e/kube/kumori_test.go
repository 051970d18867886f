package kube

import (
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

type kumoriRuntime = controllerruntime.ControllerRuntime[
	*site, *entity.None, *entity.None, *entity.None, *entity.None,
	*entity.None, *entity.None, *entity.None, *entity.None,
]

// shop is a controller in the Kumori style: a ConfigMap for each site.
type shop struct {
	*kumoriRuntime
	w     *world
	maps  *kube.Handle[*corev1.ConfigMap]
	syncs atomic.Int32
}

func (s *shop) SyncHandler(key string) error {
	s.syncs.Add(1)
	ctx := s.Context(key)
	if operations := s.Operations(key); operations.Has(controller.OperationDelete) {
		owned, err := s.maps.OwnedBy("Site", key)
		for _, m := range owned {
			if err == nil {
				err = s.maps.Delete(ctx, m)
			}
		}
		return err
	}
	_, err := s.maps.Apply(ctx, s.w.configMap(key, "one"))
	return err
}

// shop runs a shop until the test ends.
func (w *world) shop() *shop {
	w.t.Helper()
	s := &shop{w: w, maps: w.maps()}
	s.kumoriRuntime = controllerruntime.NewControllerRuntime[
		*site, *entity.None, *entity.None, *entity.None, *entity.None,
		*entity.None, *entity.None, *entity.None, *entity.None](
		"shops", "Site", w.clientset, w.sites, []cache.SharedIndexInformer{s.maps.Informer()},
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, 0)
	s.SetCustomController(s)
	stop, errs := make(chan struct{}), make(chan error, 1)
	var running wait.Group
	running.Start(func() { s.Run(2, stop, errs) })
	w.t.Cleanup(func() {
		close(stop)
		running.Wait()
		select {
		case err := <-errs:
			w.t.Error(err)
		default:
		}
	})
	return s
}

// TestAKumoriControllerWritesWithTheContextOfItsKey: the handle sets the owner, so events find the site, and the sync
// that cleans up finds the site's objects.
func TestAKumoriControllerWritesWithTheContextOfItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.shop()
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is there", func() bool { return w.liveMap("home") != nil })
	m := w.liveMap("home")
	if obj, key, err := s.DecomposeKubeSecondaryResource(cache.DeletedFinalStateUnknown{
		Key: w.key("home"), Obj: m,
	}); err != nil || key != "home" || obj.GetUID() != m.UID {
		t.Errorf("the owner of what was applied is %q, %v", key, err)
	}
	must(t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "home", metav1.DeleteOptions{}))
	natstest.Eventually(t, "it is made again", func() bool {
		again := w.liveMap("home")
		return again != nil && again.UID != m.UID
	})
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "it is cleaned up", func() bool { return w.liveMap("home") == nil })
}

// TestAKumoriControllerCollectsWhatTheOriginalRuntimeMade: labels alone name the owner, and no installation. Such an
// object of an owner that exists is the owner's to write.
func TestAKumoriControllerCollectsWhatTheOriginalRuntimeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, key := range map[string]string{"old": "gone", "home": "home"} {
		m := w.configMap(name, "old")
		m.Labels = map[string]string{controllerruntime.OwnerkindLabel: "Site", controllerruntime.OwnerKeyLabel: key}
		w.createMap(m)
	}
	must(t, w.sites.Create(t.Context(), newSite("gone")))
	must(t, w.sites.Delete(t.Context(), "gone")) // the marker of that tells whose the garbage is
	must(t, w.sites.Create(t.Context(), newSite("home")))
	w.shop()
	natstest.Eventually(t, "the garbage is collected", func() bool { return w.liveMap("old") == nil })
	natstest.Eventually(t, "the other one is written", func() bool { return w.liveMap("home").Data["value"] == "one" })
}

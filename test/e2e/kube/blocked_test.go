package kube

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controllerruntime"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

// TestAdoptOrFailAsksWhereTheCacheHasNothing: an informer that is confined to what is owned never shows what is to be adopted.
func TestAdoptOrFailAsksWhereTheCacheHasNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := informers.NewSharedInformerFactoryWithOptions(w.clientset, 0, informers.WithNamespace(w.namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = controllerruntime.OwnerkindLabel + "=Site"
	})).Core().V1().ConfigMaps().Informer()
	maps, err := controllerruntime.NewKube[*corev1.ConfigMap](w.dynamic, configMaps, informer)
	must(t, err)
	w.start(informer)
	w.createMap(w.configMap("settings", "somebody's"))
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		if err := maps.AdoptOrFail(ctx, w.configMap("settings", "one")); err != nil {
			return err
		}
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}, maps.Owns()))
	m := w.liveMap("settings")
	if _, key, ok := controllerruntime.OwnerOf(m); !ok || key != "home" || m.Data["value"] != "one" {
		t.Errorf("it is %v, of %q", m.Data, key)
	}
}

// TestWhoIsBlockedGoesOnWhenTheNameIsFree, long before the backoff is over: the object that had the name is deleted, or let go.
func TestWhoIsBlockedGoesOnWhenTheNameIsFree(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*world){
		"deleted": func(w *world) {
			must(w.t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(w.t.Context(), "settings", metav1.DeleteOptions{}))
		},
		"let go": func(w *world) {
			w.updateMap("settings", func(m *corev1.ConfigMap) { m.Labels, m.Annotations = nil, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps := w.maps()
			w.createMap(of(w.configMap("settings", "theirs"), "another", "another-installation"))
			var seen calls
			c := w.applied(func(ctx context.Context, _ string) error {
				if err := maps.AdoptOrFail(ctx, w.configMap("settings", "one")); err != nil {
					return err
				}
				_, err := maps.Apply(ctx, w.configMap("settings", "one"))
				return err
			}, &seen, maps.Owns(), controllerruntime.WithBackoff(4*time.Minute, 4*time.Minute))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			eventually(t, "it is blocked", func() bool { return c.Stats().Failures == 1 })
			free(w)
			eventually(t, "it has it", func() bool { m := w.liveMap("settings"); return m != nil && m.Data["value"] == "one" })
		})
	}
}

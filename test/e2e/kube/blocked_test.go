package kube

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

// TestAdoptOrFailAsksWhereTheCacheHasNothing: an informer for owned objects only never shows an object that is still to
// be adopted.
func TestAdoptOrFailAsksWhereTheCacheHasNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := informers.NewSharedInformerFactoryWithOptions(w.clientset, 0,
		informers.WithNamespace(w.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = controller.OwnerkindLabel + "=Site"
		})).Core().V1().ConfigMaps().Informer()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
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
	if _, key, ok := controller.OwnerOf(m); !ok || key != "home" || m.Data["value"] != "one" {
		t.Errorf("it is %v, of %q", m.Data, key)
	}
}

// TestWhoIsBlockedGoesOnWhenTheNameIsFree, long before the backoff is over: the object that had the name is deleted, or
// loses its owner.
func TestWhoIsBlockedGoesOnWhenTheNameIsFree(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*world){
		"deleted": func(w *world) {
			must(w.t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(w.t.Context(),
				"settings", metav1.DeleteOptions{}))
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
			}, &seen, maps.Owns(), controller.WithBackoff(4*time.Minute, 4*time.Minute))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "it is blocked", func() bool { return c.Stats().Failures == 1 })
			free(w)
			natstest.Eventually(t, "it has it", func() bool {
				m := w.liveMap("settings")
				return m != nil && m.Data["value"] == "one"
			})
		})
	}
}

// TestANameThatBecomesFreeWhileSomebodyIsRefusedItIsTaken, at any moment after the reconcile saw it taken: here the
// object is gone, and its event is over, before the reconcile that has just read it goes on.
func TestANameThatBecomesFreeWhileSomebodyIsRefusedItIsTaken(t *testing.T) {
	t.Parallel()
	type write func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error
	apply := func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}
	for name, write := range map[string]write{
		"Apply": apply,
		"CreateOrUpdate": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", "one"), func(*corev1.ConfigMap) error {
				return nil
			})
			return err
		},
		"AdoptOrFail": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			if err := maps.AdoptOrFail(ctx, w.configMap("settings", "one")); err != nil {
				return err
			}
			return apply(ctx, w, maps)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createMap(of(w.configMap("settings", "theirs"), "another", "another-installation"))
			gone := make(chan struct{})
			someone := w.clientset
			var once sync.Once
			cfg := w.server.Config()
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(req *http.Request) (*http.Response, error) {
					res, err := next.RoundTrip(req)
					if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/configmaps/settings") {
						once.Do(func() {
							if err := someone.CoreV1().ConfigMaps(w.namespace).Delete(req.Context(),
								"settings", metav1.DeleteOptions{}); err != nil {
								t.Error(err)
								return
							}
							<-gone
						})
					}
					return res, err
				})
			})
			w.use(cfg)
			maps := w.maps()
			w.run(w.applied(func(ctx context.Context, _ string) error { return write(ctx, w, maps) }, &calls{},
				maps.Owns(deleted(gone)), controller.WithBackoff(4*time.Minute, 4*time.Minute)))
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "it has it", func() bool {
				m, err := someone.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "settings", metav1.GetOptions{})
				return err == nil && m.Data["value"] == "one"
			})
		})
	}
}

// deleted closes the channel when the controller hears of the first delete.
func deleted(gone chan struct{}) controller.SourceOption {
	var once sync.Once
	return controller.WithPredicate(controller.PredicateFuncs{DeleteFunc: func(metav1.Object) bool {
		once.Do(func() { close(gone) })
		return false
	}})
}

// TestANameThatIsNotWantedAnyMoreWakesNobody: the primary wants another one by now, or is gone.
func TestANameThatIsNotWantedAnyMoreWakesNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world) error{
		"another is wanted": func(w *world) error {
			return w.sites.Patch(w.t.Context(), "home", []byte(`{"spec":{"title":"other"}}`))
		},
		"gone": func(w *world) error { return w.sites.Delete(w.t.Context(), "home") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps := w.maps()
			w.createMap(of(w.configMap("home", "theirs"), "another", "another-installation"))
			gone := make(chan struct{})
			var seen calls
			c := w.controller(seen.reconciler(func(
				ctx context.Context, req controller.Request,
			) (controller.Result, error) {
				site, err := w.sites.Lister().Get(req.Key)
				if isNotFound(err) {
					return controller.Result{}, nil
				}
				if err == nil {
					_, err = maps.Apply(ctx, w.configMap(site.Spec.Title, "one"))
				}
				return controller.Result{}, err
			}), controller.OwnsKube(maps.Informer(), deleted(gone)), controller.WithoutTeardown(),
				controller.WithBackoff(4*time.Minute, 4*time.Minute))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "it is blocked", func() bool { return c.Stats().Failures == 1 })
			must(t, change(w))
			natstest.Eventually(t, "it is not", func() bool { return c.Stats().Failing == 0 })
			must(t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "home", metav1.DeleteOptions{}))
			<-gone
			c.Enqueue("last", controller.OperationManual)
			natstest.Eventually(t, "all is calm", func() bool { return seen.count("last") == 1 && c.Stats().Ready == [3]int{} })
			if n := seen.with("home", controller.OperationRetry); n > 0 {
				t.Errorf("it was woken: %d retries", n)
			}
		})
	}
}

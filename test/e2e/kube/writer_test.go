package kube

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

// TestAnObjectNamesTheControllerThatWroteIt. That it names another one is no reason to write; nor that it names none,
// but where another controller may have the id of the installation, and a prune has to tell them apart.
func TestAnObjectNamesTheControllerThatWroteIt(t *testing.T) {
	t.Parallel()
	type (
		maps  = kube.Handle[*corev1.ConfigMap]
		sites = controller.Controller[*site]
		write = func(ctx context.Context, w *world, c *sites, maps *maps, value string) error
	)
	apply := func(opts ...kube.ApplyOption) write {
		return func(ctx context.Context, w *world, _ *sites, maps *maps, value string) error {
			_, err := maps.Apply(ctx, w.configMap("settings", value), opts...)
			return err
		}
	}
	for name, test := range map[string]struct {
		write write
		takes bool // its name, when it writes what another has written
	}{
		"Apply":         {apply(), true},
		"without force": {apply(kube.WithoutForce()), false},
		"Apply, owned by hand": {func(ctx context.Context, w *world, c *sites, maps *maps, value string) error {
			m := w.configMap("settings", value)
			c.SetOwner(m, "home")
			_, err := maps.Apply(ctx, m)
			return err
		}, true},
		"CreateOrUpdate": {func(ctx context.Context, w *world, _ *sites, maps *maps, value string) error {
			_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", ""), func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"value": value}
				m.Annotations = map[string]string{"mine": "1"}
				return nil
			})
			return err
		}, true},
	} {
		for _, id := range []string{"", "given"} {
			t.Run(name+" "+id, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				maps := w.maps()
				var seen calls
				var value atomic.Value
				value.Store("one")
				opts := []controller.Option{maps.Owns(controller.WithPrune())}
				if id != "" {
					opts = append(opts, controller.WithInstance(id+" "+w.namespace))
				}
				var c *sites
				c = w.controller(seen.reconciler(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					return controller.Result{}, test.write(ctx, w, c, maps, value.Load().(string))
				}), opts...)
				r := w.run(c)
				names := func(want string) {
					t.Helper()
					natstest.Eventually(t, fmt.Sprintf("it names %q, and is %s", want, value.Load()), func() bool {
						m := w.liveMap("settings")
						return m != nil && m.Annotations[entity.OwnerStatusBucketAnnotation] == want &&
							m.Data["value"] == value.Load()
					})
				}
				reconcile := func() {
					t.Helper()
					before := c.Stats().Reconciles
					c.Enqueue("home", controller.OperationManual)
					natstest.Eventually(t, "it is reconciled", func() bool {
						return c.Stats().Reconciles > before && c.Stats().Running == 0
					})
				}
				calm := func() {
					t.Helper()
					m := w.liveMap("settings")
					natstest.Eventually(t, "the cache shows it", func() bool {
						cached, err := maps.Get(w.key("settings"))
						return err == nil && cached.ResourceVersion == m.ResourceVersion
					})
					sent := w.requests.writes("configmaps")
					for range 3 {
						reconcile()
					}
					if n := w.requests.writes("configmaps") - sent; n != 0 {
						t.Errorf("%d writes", n)
					}
				}
				site := newSite("home")
				must(t, w.sites.Create(t.Context(), site))
				names("sites-status")
				must(t, entity.WaitReconciled(t.Context(), w.sites, "home", uint64(site.Generation)))
				calm()

				w.updateMap("settings", func(m *corev1.ConfigMap) {
					delete(m.Annotations, entity.OwnerStatusBucketAnnotation)
				})
				if id != "" {
					names("sites-status")
				}
				calm()

				w.updateMap("settings", func(m *corev1.ConfigMap) {
					m.Annotations[entity.OwnerStatusBucketAnnotation] = "others-status"
				})
				calm()
				names("others-status")
				value.Store("two")
				reconcile()
				names(map[bool]string{true: "sites-status", false: "others-status"}[test.takes])
				calm()
				if s := c.Stats(); s.Failures > 0 || s.Brake.Engaged {
					t.Errorf("%d failures, brake %+v", s.Failures, s.Brake)
				}

				// Another process, which has written nothing itself, finds all as it is to be.
				r.halt()
				sent := w.requests.writes("configmaps")
				maps = w.maps()
				c = w.controller(seen.reconciler(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
					return controller.Result{}, test.write(ctx, w, c, maps, "two")
				}), append([]controller.Option{maps.Owns(controller.WithPrune())}, opts[1:]...)...)
				w.run(c)
				natstest.Eventually(t, "the next process has reconciled it", func() bool {
					return c.Stats().Reconciles > 0 && c.Stats().Running == 0
				})
				if n := w.requests.writes("configmaps") - sent; n != 0 {
					t.Errorf("%d writes of the next process", n)
				}
			})
		}
	}
}

// TestTwoControllersWithOneInstancePruneNothingOfEachOther.
func TestTwoControllersWithOneInstancePruneNothingOfEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var both []*controller.Controller[*site]
	for _, mark := range []string{"a", "b"} {
		maps := w.maps(kube.WithFieldManager("one-for-both"))
		sites, err := entity.NewClient[*site](t.Context(), w.js, entity.Config{
			Kind: "Site", Bucket: "sites", StatusBucket: "status-" + mark, Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		t.Cleanup(sites.Close)
		c, err := controller.New("sites", sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				_, err := maps.Apply(ctx, w.configMap(req.Key+"-"+mark, "one"))
				return controller.Result{}, err
			}), maps.Owns(controller.WithPrune()), controller.WithInstance(w.namespace))
		must(t, err)
		w.run(c)
		both = append(both, c)
	}
	must(t, w.sites.Create(t.Context(), newSite("home")))
	for i, other := range []string{"status-b", "status-a"} {
		natstest.Eventually(t, "it holds what the other made, and says so", func() bool {
			problem := both[i].Stats().Degraded["brake"]
			return both[i].Stats().Brake.Pruned == 1 && problem != nil && strings.Contains(problem.Error(), other)
		})
	}
	for _, name := range []string{"home-a", "home-b"} {
		if w.liveMap(name) == nil {
			t.Errorf("%s has gone", name)
		}
	}
	if n := w.requests.of("DELETE configmaps"); n > 0 {
		t.Errorf("%d deletes", n)
	}
}

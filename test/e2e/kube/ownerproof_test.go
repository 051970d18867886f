package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func proofSecret(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }

// mallory is somebody who may read and update ConfigMaps of the test's namespace, and delete none.
func (w *world) mallory() kubernetes.Interface {
	w.t.Helper()
	w.grant("mallory", "updater", "get", "list", "update")
	clientset, err := kubernetes.NewForConfig(w.server.ConfigFor("mallory"))
	must(w.t, err)
	natstest.Eventually(w.t, "mallory has his rights", func() bool {
		_, err := clientset.CoreV1().ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return clientset
}

// forge gives a ConfigMap all marks that another one has.
func (w *world) forge(as kubernetes.Interface, name string, marked *corev1.ConfigMap) {
	w.t.Helper()
	theirs := as.CoreV1().ConfigMaps(w.namespace)
	m, err := theirs.Get(w.t.Context(), name, metav1.GetOptions{})
	must(w.t, err)
	m.Labels, m.Annotations = maps.Clone(marked.Labels), maps.Clone(marked.Annotations)
	_, err = theirs.Update(w.t.Context(), m, metav1.UpdateOptions{})
	must(w.t, err)
	err = theirs.Delete(w.t.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		w.t.Fatalf("mallory may delete: %v", err)
	}
}

// TestWhoMayUpdateAndNotDeleteHasNothingDeletedWhereOwnersAreProven. Where they are not, he has: he gives somebody's
// ConfigMap the marks that he reads on another one, and the runtime deletes it with their owner, by cascade or sweep.
func TestWhoMayUpdateAndNotDeleteHasNothingDeletedWhereOwnersAreProven(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []controller.Option
		stay bool
	}{
		"proven":     {[]controller.Option{controller.WithOwnerProof(proofSecret('a'))}, true},
		"not proven": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mallory := w.mallory()
			w.createMap(w.configMap("theirs", "precious"))
			w.createMap(w.configMap("theirs-too", "precious"))
			handle := w.maps()
			c := w.applied(func(ctx context.Context, _ string) error {
				_, err := handle.Apply(ctx, w.configMap("settings", "one"))
				return err
			}, &calls{}, append(test.opts, handle.Owns(), controller.WithResyncInterval(50*time.Millisecond))...)
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "it is there", func() bool { return w.liveMap("settings") != nil })
			marked := w.liveMap("settings")

			w.forge(mallory, "theirs", marked)
			natstest.Eventually(t, "the cache shows it", func() bool {
				owned, err := handle.OwnedBy("Site", "home")
				return err == nil && len(owned) == 2
			})
			must(t, w.sites.Delete(t.Context(), "home"))
			natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
			if w.liveMap("settings") != nil {
				t.Error("its own is still there")
			}
			if stays := w.liveMap("theirs") != nil; stays != test.stay {
				t.Errorf("after the cascade somebody's ConfigMap is there: %v, want %v", stays, test.stay)
			}
			w.forge(mallory, "theirs-too", marked)
			if !test.stay {
				natstest.Eventually(t, "it is swept", func() bool { return w.liveMap("theirs-too") == nil })
				return
			}
			natstest.Eventually(t, "both are reported", func() bool { return c.Stats().Unproven == 2 })
			sweeps := c.Stats().Sweeps
			natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
			for _, name := range []string{"theirs", "theirs-too"} {
				if w.liveMap(name) == nil {
					t.Errorf("%s was swept", name)
				}
			}
			if stats := c.Stats(); stats.LeftUnproven != 1 || stats.Orphaned != 0 {
				t.Errorf("%d left by the teardown, %d orphaned", stats.LeftUnproven, stats.Orphaned)
			}
		})
	}
}

// provers write the ConfigMap "settings".
var provers = map[string]func(context.Context, *world, *kube.Handle[*corev1.ConfigMap]) error{
	"Apply": func(ctx context.Context, w *world, handle *kube.Handle[*corev1.ConfigMap]) error {
		_, err := handle.Apply(ctx, w.configMap("settings", "one"))
		return err
	},
	"CreateOrUpdate": func(ctx context.Context, w *world, handle *kube.Handle[*corev1.ConfigMap]) error {
		_, err := handle.CreateOrUpdate(ctx, w.configMap("settings", ""), func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"value": "one"}
			m.Annotations = map[string]string{"mine": "1"}
			return nil
		})
		return err
	},
	"AdoptOrFail and Apply": func(ctx context.Context, w *world, handle *kube.Handle[*corev1.ConfigMap]) error {
		if err := handle.AdoptOrFail(ctx, w.configMap("settings", "one")); err != nil {
			return err
		}
		_, err := handle.Apply(ctx, w.configMap("settings", "one"))
		return err
	},
}

// TestProofsAreWrittenOnceAndThenCalm: when the option is given, when another secret is the first, and when somebody
// has taken a proof off.
func TestProofsAreWrittenOnceAndThenCalm(t *testing.T) {
	t.Parallel()
	for name, write := range provers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			round := func(step string, writes int, disturb func(), opts ...controller.Option) {
				t.Helper()
				handle := w.maps()
				var seen calls
				before := w.requests.writes("configmaps")
				c := w.applied(func(ctx context.Context, _ string) error { return write(ctx, w, handle) }, &seen,
					append(opts, handle.Owns(), controller.WithResyncInterval(50*time.Millisecond))...)
				r := w.run(c)
				defer r.halt()
				settled := func() {
					t.Helper()
					sweeps, count := c.Stats().Sweeps, seen.count("home")
					natstest.Eventually(t, "some rounds", func() bool {
						stats := c.Stats()
						return stats.Sweeps >= sweeps+3 && seen.count("home") >= count+3 && stats.Unproven == 0 &&
							stats.ProvenByOlder == 0
					})
				}
				settled()
				if disturb != nil {
					disturb()
					settled()
				}
				if n := w.requests.writes("configmaps") - before; n != writes {
					t.Errorf("%s: %d writes, want %d", step, n, writes)
				}
			}
			proof := func() string { return w.liveMap("settings").Annotations[entity.OwnerProofAnnotation] }
			round("without", 1, nil)
			if proof() != "" {
				t.Error("it is proven without the option")
			}
			round("the option", 1, nil, controller.WithOwnerProof(proofSecret('a')))
			first := proof()
			round("the same", 0, nil, controller.WithOwnerProof(proofSecret('a'), proofSecret('b')))
			round("another secret", 1, nil, controller.WithOwnerProof(proofSecret('b'), proofSecret('a')))
			second := proof()
			if first == "" || second == "" || first == second || w.liveMap("settings").Data["value"] != "one" {
				t.Errorf("the proofs are %q and %q", first, second)
			}
			// One write is the disturber's.
			round("taken off", 2, func() {
				w.updateMap("settings", func(m *corev1.ConfigMap) {
					delete(m.Annotations, entity.OwnerProofAnnotation)
				})
				natstest.Eventually(t, "it is proven again", func() bool { return proof() == second })
			}, controller.WithOwnerProof(proofSecret('b')))
		})
	}
}

// TestWhatIsAdoptedIsProvenByThat: a teardown that comes before the next Apply deletes it.
func TestWhatIsAdoptedIsProvenByThat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createMap(w.configMap("settings", "somebody's"))
	handle := w.maps()
	c := w.applied(func(ctx context.Context, _ string) error {
		return handle.AdoptOrFail(ctx, w.configMap("settings", ""))
	}, &calls{}, handle.Owns(), controller.WithOwnerProof(proofSecret('a')))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is adopted", func() bool {
		return w.liveMap("settings").Annotations[entity.OwnerProofAnnotation] != ""
	})
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
	if w.liveMap("settings") != nil || c.Stats().LeftUnproven != 0 {
		t.Error("it is still there")
	}
}

// TestDeleteInAReconcileRefusesWhatIsNotProven, and says what to do.
func TestDeleteInAReconcileRefusesWhatIsNotProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handle := w.maps()
	err := w.inReconcile("home", func(ctx context.Context) error {
		if _, err := handle.Apply(ctx, w.configMap("settings", "one")); err != nil {
			return err
		}
		forged := w.configMap("theirs", "precious")
		forged.Labels, forged.Annotations = w.liveMap("settings").Labels, w.liveMap("settings").Annotations
		err := handle.Delete(ctx, w.createMap(forged))
		if unproven, ok := errors.AsType[*controller.UnprovenError](err); !ok || unproven.Key != w.key("theirs") {
			return fmt.Errorf("got %w, want an UnprovenError", err)
		}
		says(t, err, "theirs", "no valid proof", "Apply or CreateOrUpdate")
		if _, err := handle.Apply(ctx, w.configMap("theirs", "ours by now")); err != nil {
			return err
		}
		for _, name := range []string{"theirs", "settings"} {
			if err := handle.Delete(ctx, w.liveMap(name)); err != nil {
				return err
			}
		}
		return nil
	}, handle.Owns(), controller.WithOwnerProof(proofSecret('a')))
	must(t, err)
	if w.liveMap("theirs") != nil || w.liveMap("settings") != nil {
		t.Error("what is proven is still there")
	}
}

// TestADeleterAloneKnowsWhatIsProven: SetProvenOwner proves what a plain client writes, in whatever form an informer
// shows it.
func TestADeleterAloneKnowsWhatIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	informer := w.start(w.metadataOnly(configMaps, w.namespace))
	c := w.controller(new(calls).reconciler(nil), controller.WithOwnerProof(proofSecret('a')),
		controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(w.dynamic, configMaps))))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it works", func() bool { return c.Stats().Reconciles > 0 })
	proven, marked, elsewhere := w.configMap("proven", ""), w.configMap("marked", ""), w.configMap("elsewhere", "")
	c.SetProvenOwner(proven, "home", controller.ProofOfKube(configMaps.GroupResource()))
	c.SetOwner(marked, "home")
	c.SetProvenOwner(elsewhere, "home", controller.ProofOfKube(corev1.Resource("secrets")))
	for _, m := range []*corev1.ConfigMap{proven, marked, elsewhere} {
		w.createMap(m)
	}
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
	if w.liveMap("proven") != nil || w.liveMap("marked") == nil || w.liveMap("elsewhere") == nil {
		t.Error("what is proven is there, or what is not has gone")
	}
	if n := c.Stats().LeftUnproven; n != 2 {
		t.Errorf("%d left by the teardown, want 2", n)
	}
}

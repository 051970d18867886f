package kube

import (
	"context"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }
func isConflict(err error) bool { return apierrors.IsConflict(err) }

// TestOwnedObjectsWakeTheirOwnerAndGoWithIt for every kind of informer and both scopes: created, changed and deleted
// objects wake the site. When the site goes, its objects go too, and no others.
func TestOwnedObjectsWakeTheirOwnerAndGoWithIt(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*world) (schema.GroupVersionResource, string, cache.SharedIndexInformer){
		"typed": func(w *world) (schema.GroupVersionResource, string, cache.SharedIndexInformer) {
			return configMaps, w.namespace, w.typed()
		},
		"unstructured": func(w *world) (schema.GroupVersionResource, string, cache.SharedIndexInformer) {
			return configMaps, w.namespace, w.unstructured(configMaps, w.namespace)
		},
		"metadata only": func(w *world) (schema.GroupVersionResource, string, cache.SharedIndexInformer) {
			return configMaps, w.namespace, w.metadataOnly(configMaps, w.namespace)
		},
		"cluster-scoped": func(w *world) (schema.GroupVersionResource, string, cache.SharedIndexInformer) {
			resource, crd := w.widgets("Cluster")
			w.install(resource, crd)
			return resource, "", w.unstructured(resource, "")
		},
		"custom resource": func(w *world) (schema.GroupVersionResource, string, cache.SharedIndexInformer) {
			resource, crd := w.widgets("Namespaced")
			w.install(resource, crd)
			return resource, w.namespace, w.metadataOnly(resource, w.namespace)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			resource, namespace, informer := set(w)
			var seen calls
			c := w.controller(seen.reconciler(nil),
				controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(w.dynamic, resource))))
			w.start(informer)
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count("home") == 1 })

			at := w.dynamic.Resource(resource).Namespace(namespace)
			object := func(name string) *unstructured.Unstructured {
				if resource == configMaps {
					o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
					o.SetName(name)
					return o
				}
				return w.widget(resource, namespace, name, "one")
			}
			woken := func(n int) func() bool {
				return func() bool { return seen.with("home", controller.OperationSecondary) >= n }
			}
			first := object("first")
			c.SetOwner(first, "home")
			_, err := at.Create(t.Context(), first, metav1.CreateOptions{})
			must(t, err)
			natstest.Eventually(t, "created", woken(1))
			_, err = at.Patch(t.Context(), "first", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			must(t, err)
			natstest.Eventually(t, "changed", woken(2))
			must(t, at.Delete(t.Context(), "first", metav1.DeleteOptions{}))
			natstest.Eventually(t, "deleted", woken(3))

			mine, others, nobodys :=
				object("mine"),
				of(object("others"), "home", "another-installation"),
				object("nobodys")
			c.SetOwner(mine, "home")
			for _, o := range []*unstructured.Unstructured{others, nobodys, mine} {
				_, err := at.Create(t.Context(), o, metav1.CreateOptions{})
				must(t, err)
			}
			natstest.Eventually(t, "the last one", woken(4))
			must(t, w.sites.Delete(t.Context(), "home"))
			natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
			for name, want := range map[string]bool{"mine": false, "others": true, "nobodys": true} {
				_, err := at.Get(t.Context(), name, metav1.GetOptions{})
				if there := err == nil; there != want || err != nil && !isNotFound(err) {
					t.Errorf("%s is there: %v, want %v (%v)", name, there, want, err)
				}
			}
		})
	}
}

// TestEventsOfAnotherInstallationWakeNobody: same kind and key, in the same cluster.
func TestEventsOfAnotherInstallationWakeNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen calls
	maps := w.maps()
	c := w.controller(seen.reconciler(nil), maps.Owns())
	w.run(c)
	for _, key := range []string{"home", "away"} {
		must(t, w.sites.Create(t.Context(), newSite(key)))
		natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count(key) == 1 })
	}
	w.createMap(of(w.configMap("others", "one"), "home", "another-installation"))
	last := w.configMap("mine", "one")
	c.SetOwner(last, "away")
	w.createMap(last)
	natstest.Eventually(t, "an event that came later", func() bool {
		return seen.with("away", controller.OperationSecondary) == 1
	})
	if n := seen.count("home"); n != 1 {
		t.Errorf("reconciled %d times, want once: the object is another installation's", n)
	}
	if n := c.Stats().Foreign; n == 0 {
		t.Error("the other installation's object is not counted")
	}
}

// TestOwnersAreFoundByLabel where the key is no label value, with the API server's own selectors.
func TestOwnersAreFoundByLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, key := range []string{
		"home",
		"a-key-that-is-far-too-long-to-be-the-value-of-a-label-in-kubernetes-at-all",
		"-starts.and.ends=odd/",
	} {
		m := of(w.configMap(fmt.Sprint("map-", i), key), key, "instance")
		w.createMap(m)
		list, err := w.clientset.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: m.Labels}),
		})
		must(t, err)
		if len(list.Items) != 1 {
			t.Fatalf("%d objects by the labels %v, want 1", len(list.Items), m.Labels)
		}
		if kind, got, ok := controller.OwnerOf(&list.Items[0]); !ok || kind != "Site" || got != key {
			t.Errorf("the owner of what was found is %s %q, want Site %q", kind, got, key)
		}
	}
}

// TestWatchedObjectsEnqueueWhomTheMapperNames: the mapper gets a copy with the object's own type.
func TestWatchedObjectsEnqueueWhomTheMapperNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen calls
	maps := w.maps()
	w.run(w.controller(seen.reconciler(nil), maps.Watches(func(
		_ context.Context, m *corev1.ConfigMap,
	) ([]string, error) {
		key := m.Data["value"]
		m.Data["value"] = "modified" // a copy is the mapper's own
		return []string{key}, nil
	})))
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "the site is reconciled", func() bool { return seen.count("home") == 1 })
	w.createMap(w.configMap("theme", "home"))
	natstest.Eventually(t, "the site is woken", func() bool { return seen.with("home", controller.OperationTertiary) == 1 })
	if m, err := maps.Get(w.key("theme")); err != nil || m.Data["value"] != "home" {
		t.Errorf("the cache has %v, %v: the mapper modified it", m, err)
	}
}

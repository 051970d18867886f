package kube

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestTheSweepKnowsEveryKindOfInformer: unstructured and metadata-only ones, and of resources without a namespace.
func TestTheSweepKnowsEveryKindOfInformer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scope        string
		metadataOnly bool
	}{
		"unstructured":                  {"Namespaced", false},
		"metadata only":                 {"Namespaced", true},
		"cluster-scoped":                {"Cluster", false},
		"cluster-scoped, metadata only": {"Cluster", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			here := w.instance()
			resource, crd := w.widgets(test.scope)
			w.install(resource, crd)
			namespace := w.namespace
			if test.scope == "Cluster" {
				namespace = ""
			}
			at := w.dynamic.Resource(resource).Namespace(namespace)
			long := "a-key-that-is-far-too-long-to-be-the-value-of-a-label-in-kubernetes-so-it-is-hashed"
			w.were("gone", long)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			for name, owner := range map[string][2]string{
				"orphan": {"gone", here}, "hashed": {long, here},
				"foreign": {"gone", "another-installation"}, "owned": {"home", here},
			} {
				_, err := at.Create(t.Context(),
					of(w.widget(resource, namespace, name, "one"), owner[0], owner[1]), metav1.CreateOptions{})
				must(t, err)
			}
			var informer cache.SharedIndexInformer
			if test.metadataOnly {
				informer = w.metadataOnly(resource, namespace)
			} else {
				informer = w.unstructured(resource, namespace)
			}
			w.start(informer)
			c := w.controller(new(calls).reconciler(nil), controller.WithResyncInterval(50*time.Millisecond),
				controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(w.dynamic, resource))))
			w.run(c)
			left := func() map[string]bool {
				list, err := w.dynamic.Resource(resource).Namespace(namespace).List(
					context.Background(), metav1.ListOptions{})
				must(t, err)
				names := map[string]bool{}
				for _, item := range list.Items {
					names[item.GetName()] = true
				}
				return names
			}
			natstest.Eventually(t, "the orphans are swept", func() bool { n := left(); return !n["orphan"] && !n["hashed"] })
			sweeps := c.Stats().Sweeps
			natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
			if n := left(); !n["foreign"] || !n["owned"] || len(n) != 2 {
				t.Errorf("left are %v", n)
			}
		})
	}
}

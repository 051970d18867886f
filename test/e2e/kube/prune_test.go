package kube

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAnObjectUnderItsOldNameGoes, and nothing that the reconcile wants, keeps, or that is somebody else's.
func TestAnObjectUnderItsOldNameGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	c := w.controller(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		s, err := w.sites.Lister().Get(req.Key)
		if err != nil {
			return controller.Result{}, nil
		}
		for _, name := range strings.Split(s.Spec.Title, ",") {
			if _, err := maps.Apply(ctx, w.configMap(req.Key+"-"+name, "one")); err != nil {
				return controller.Result{}, err
			}
		}
		maps.Keep(ctx, w.key("kept"))
		return controller.Result{}, nil
	}, maps.Owns(controller.WithPrune()))
	w.run(c)
	title := func(key, title string) {
		t.Helper()
		must(t, w.sites.Patch(t.Context(), key, []byte(`{"spec":{"title":"`+title+`"}}`)))
	}
	settled := func(what string, there ...string) {
		t.Helper()
		natstest.Eventually(t, what, func() bool {
			list, err := w.clientset.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			left := map[string]bool{}
			for _, m := range list.Items {
				left[m.Name] = true
			}
			delete(left, "kube-root-ca.crt")
			for _, name := range there {
				if !left[name] {
					return false
				}
			}
			return len(left) == len(there)
		})
	}
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite("shop")))
	title("home", "a,b")
	title("shop", "a")
	settled("each has its maps", "home-a", "home-b", "shop-a")

	instance := entity.InstanceOf(w.liveMap("home-a"))
	w.createMap(of(w.configMap("kept", ""), "home", instance))
	w.createMap(of(w.configMap("theirs", ""), "home", "another"))
	w.createMap(w.configMap("somebodys", ""))
	before := c.Stats().Pruned
	title("home", "b,c")
	settled("the old name goes", "home-b", "home-c", "shop-a", "kept", "theirs", "somebodys")
	natstest.Eventually(t, "it is counted", func() bool { return c.Stats().Pruned == before+1 })
	requests := w.requests.all()
	for range 3 {
		done := c.Stats().Reconciles
		c.Enqueue("home", controller.OperationRetry)
		natstest.Eventually(t, "it is reconciled", func() bool { return c.Stats().Reconciles > done && c.Stats().Running == 0 })
	}
	if n := w.requests.all() - requests; n != 0 {
		t.Errorf("%d requests of a calm primary", n)
	}

	// What somebody has changed since it was seen is not deleted as it was seen, but as it is now.
	w.updateMap("home-c", func(m *corev1.ConfigMap) { m.Finalizers = []string{"tests/holds"} })
	title("home", "b")
	natstest.Eventually(t, "it is on its way out", func() bool { return w.liveMap("home-c").DeletionTimestamp != nil })
	before += 2
	natstest.Eventually(t, "that is counted", func() bool { return c.Stats().Pruned == before })
	w.updateMap("home-c", func(m *corev1.ConfigMap) { m.Finalizers = nil })
	settled("nobody holds it any more", "home-b", "shop-a", "kept", "theirs", "somebodys")
	if n := c.Stats().Pruned; n != before {
		t.Errorf("an object that was on its way out was pruned again: %d, then %d", before, n)
	}
}

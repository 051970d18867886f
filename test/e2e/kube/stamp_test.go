package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
)

// TestKubernetesObjectsCarryARevisionOfTheirOwner, and are not written again because the owner has another.
func TestKubernetesObjectsCarryARevisionOfTheirOwner(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *world, *kube.Handle[*corev1.ConfigMap]) error{
		"Apply": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.Apply(ctx, w.configMap("settings", "one"))
			return err
		},
		"CreateOrUpdate": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", ""), func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"value": "one"}
				m.Annotations = map[string]string{"mine": "1"}
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps := w.maps()
			var seen calls
			w.run(w.controller(seen.reconciler(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
				return controller.Result{}, write(ctx, w, maps)
			}), maps.Owns()))
			site := newSite("home")
			must(t, w.sites.Create(t.Context(), site))
			first := site.ResourceVersion
			carries := func(prefix string) {
				t.Helper()
				natstest.Eventually(t, "it carries "+prefix, func() bool {
					m := w.liveMap("settings")
					return m != nil && strings.HasPrefix(m.Annotations[entity.OwnerRevisionAnnotation], prefix)
				})
			}
			carries(first + "@")
			must(t, entity.WaitReconciled(t.Context(), w.sites, "home", uint64(site.Generation)))

			sent := w.requests.writes("configmaps")
			site.Annotations = map[string]string{"changed": "yes"}
			must(t, w.sites.Update(t.Context(), site))
			must(t, entity.WaitReconciled(t.Context(), w.sites, "home", uint64(site.Generation)))
			if n := w.requests.writes("configmaps") - sent; n != 0 {
				t.Errorf("%d writes of what has not changed", n)
			}

			// One that the owner has not reached is from a later state of the stream, and is put right.
			w.updateMap("settings", func(m *corev1.ConfigMap) {
				_, stream, _ := strings.Cut(m.Annotations[entity.OwnerRevisionAnnotation], "@")
				m.Annotations[entity.OwnerRevisionAnnotation] = "1000@" + stream
			})
			carries(site.ResourceVersion + "@")
		})
	}
}

// TestTheBrakeHoldsAnObjectWhoseOwnerIsFromALaterState of the stream: one is enough, if the stream has the marker of a
// delete of the owner. One of an owner that never was is reported, also after the release.
func TestTheBrakeHoldsAnObjectWhoseOwnerIsFromALaterState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.instance()
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite("gone")))
	must(t, w.sites.Delete(t.Context(), "gone"))
	stream, err := w.js.Stream(t.Context(), "KV_sites")
	must(t, err)
	for name, owner := range map[string]string{"orphan": "gone", "made-up": "ghost"} {
		m := of(w.configMap(name, "one"), owner, here)
		m.Annotations[entity.OwnerRevisionAnnotation] = "1000@" + entity.StreamIdentity(stream.CachedInfo().Created)
		w.createMap(m)
	}
	maps := w.maps()
	var seen calls
	c := w.controller(seen.reconciler(nil), maps.Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "the brake is engaged", func() bool { return c.Stats().Brake.Engaged })
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	if n := w.requests.of("DELETE configmaps"); n != 0 {
		t.Fatalf("%d deletes were sent though the brake is engaged", n)
	}
	must(t, c.ReleaseBrake(t.Context()))
	natstest.Eventually(t, "it is gone", func() bool { return w.liveMap("orphan") == nil })
	sweeps = c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	if w.liveMap("made-up") == nil || seen.count("ghost") != 0 || c.Stats().NeverWas != 1 {
		t.Errorf("what names an owner that never was: %v; reconciled %d times", w.liveMap("made-up"), seen.count("ghost"))
	}
}

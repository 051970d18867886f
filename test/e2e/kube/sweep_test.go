package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
)

func countOf(maps []*corev1.ConfigMap, prefix string) int {
	n := 0
	for _, m := range maps {
		if strings.HasPrefix(m.Name, prefix) {
			n++
		}
	}
	return n
}

// instance is the id of this installation, known once a controller has run.
func (w *world) instance() string {
	w.t.Helper()
	r := w.run(w.controller(new(calls).reconciler(nil)))
	var id string
	natstest.Eventually(w.t, "the installation has an id", func() bool {
		kv, err := w.js.KeyValue(w.t.Context(), "sites-status")
		if err != nil {
			return false
		}
		entry, err := kv.Get(w.t.Context(), "_nagi.instance")
		if err != nil {
			return false
		}
		id = string(entry.Value())
		return true
	})
	r.halt()
	return id
}

// TestTheSweepDeletesKubernetesObjectsWithoutAnOwner, and leaves another installation's objects and nobody's.
func TestTheSweepDeletesKubernetesObjectsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.instance()
	w.were("gone")
	w.createMap(of(w.configMap("orphan", "one"), "gone", here))
	w.createMap(of(w.configMap("foreign", "one"), "gone", "another-installation"))
	w.createMap(of(w.configMap("unnamed", "one"), "gone", ""))
	w.createMap(w.configMap("nobodys", "one"))
	maps := w.maps()
	var seen calls
	c := w.controller(seen.reconciler(nil), maps.Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "the orphan is swept", func() bool { return w.liveMap("orphan") == nil })
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	for _, name := range []string{"foreign", "unnamed", "nobodys"} {
		if w.liveMap(name) == nil {
			t.Errorf("%s was swept", name)
		}
	}
	if n := w.requests.of("DELETE configmaps"); n != 1 {
		t.Errorf("%d deletes were sent, want 1", n)
	}
}

// TestTheBrakeHoldsAMassDeleteOfKubernetesObjects that nobody ordered: the bucket was emptied behind the controller's
// back. After a release they go.
func TestTheBrakeHoldsAMassDeleteOfKubernetesObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.instance()
	const count = 20
	for i := range count {
		w.were(fmt.Sprint("gone-", i))
		w.createMap(of(w.configMap(fmt.Sprint("orphan-", i), "one"), fmt.Sprint("gone-", i), here))
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
	natstest.Eventually(t, "they are gone", func() bool {
		left, err := maps.List(nil)
		return err == nil && countOf(left, "orphan-") == 0
	})
	if n := w.requests.of("DELETE configmaps"); n != count {
		t.Errorf("%d deletes were sent, want %d", n, count)
	}
}

// TestVanishedPrimariesDoNotTakeTheirKubernetesObjectsWithThem: the stream was purged while the controller ran.
func TestVanishedPrimariesDoNotTakeTheirKubernetesObjectsWithThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 12
	maps := w.maps()
	var seen calls
	c := w.controller(seen.reconciler(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if req.Operations.Has(controller.OperationDelete) {
			return controller.Result{}, nil
		}
		_, err := maps.Apply(ctx, w.configMap(req.Key, "one"))
		return controller.Result{}, err
	}), maps.Owns())
	first := w.run(c)
	for i := range count {
		must(t, w.sites.Create(t.Context(), newSite(fmt.Sprint("site-", i))))
	}
	natstest.Eventually(t, "all are there", func() bool {
		left, err := maps.List(nil)
		return err == nil && countOf(left, "site-") == count
	})
	first.halt()
	stream, err := w.js.Stream(t.Context(), "KV_sites")
	must(t, err)
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites.>")))
	again := w.controller(seen.reconciler(nil), maps.Owns())
	w.run(again)
	natstest.Eventually(t, "the brake is engaged", func() bool { return again.Stats().Brake.Engaged })
	if n := w.requests.of("DELETE configmaps"); n != 0 {
		t.Errorf("%d deletes were sent though the brake is engaged", n)
	}
	must(t, again.ReleaseBrake(t.Context()))
	natstest.Eventually(t, "all are torn down", func() bool { return again.Stats().TornDown == count })
	left, err := maps.List(nil)
	if err != nil || countOf(left, "site-") != 0 {
		t.Errorf("%d are left, %v", countOf(left, "site-"), err)
	}
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	corev1 "k8s.io/api/core/v1"
)

// TestApplyInAReconcileByHandIsAsInAController: owner, prune, refusal, calm and cascade, on a real API server.
func TestApplyInAReconcileByHandIsAsInAController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(kube.WithFieldManager("sites"))
	w.createMap(w.configMap("somebodys", "mine"))
	names := []string{"a", "b"}
	value := "one"
	run := reconciletest.New(t, w.sites, controller.ReconcilerFunc(
		func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if req.Operations.Has(controller.OperationDelete) {
				return controller.Result{}, nil
			}
			var errs []error
			for _, name := range names {
				_, err := maps.Apply(ctx, w.configMap(name, value))
				errs = append(errs, err)
			}
			return controller.Result{}, errors.Join(errs...)
		}), maps.Owns(controller.WithPrune()))
	must(t, w.sites.Create(t.Context(), newSite("shop")))
	wrote := func(what string, got reconciletest.Outcome[*site], want ...string) {
		t.Helper()
		for i, w0 := range want {
			want[i] = fmt.Sprintf(w0, w.namespace)
		}
		if got.Err != nil || fmt.Sprint(got.Written) != fmt.Sprint(want) {
			t.Errorf("%s: wrote %v, want %v: %v", what, got.Written, want, got.Err)
		}
	}

	got := run.Reconcile(t.Context(), "shop")
	wrote("the first", got, "created ConfigMap %s/a", "created ConfigMap %s/b")
	obj := &corev1.ConfigMap{}
	must(t, got.Written[0].Into(obj))
	if kind, key, ok := controller.OwnerOf(obj); !ok || kind != "Site" || key != "shop" || obj.Data["value"] != "one" {
		t.Errorf("owned by %s %q, with %v", kind, key, obj.Data)
	}
	wrote("the same again", run.Reconcile(t.Context(), "shop", controller.OperationResync))
	names, value = []string{"a"}, "two"
	wrote("another value, and one less", run.Reconcile(t.Context(), "shop"),
		"updated ConfigMap %s/a", "deleted ConfigMap %s/b")
	names = []string{"a", "somebodys"}
	got = run.Reconcile(t.Context(), "shop")
	if _, exists := errors.AsType[*controller.ResourceExistsError](got.Err); !exists || len(got.Events) != 1 {
		t.Errorf("somebody else's: %v, events %v", got.Err, got.Events)
	}
	gone := run.Delete(t.Context(), "shop")
	wrote("the teardown", gone, "deleted ConfigMap %s/a")
	if !gone.TornDown || w.liveMap("a") != nil || w.liveMap("somebodys") == nil {
		t.Errorf("torn down %v, left %v, and %v", gone.TornDown, w.liveMap("a"), w.liveMap("somebodys"))
	}
}

package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestResourcesBehindAnAPIAreReconciled by external.Reconcile, with its intents and the cascade.
func TestResourcesBehindAnAPIAreReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, cloud := newWorld(t), cloudtest.New(t)
		driver := cloudtest.NewDriver(cloud.Server.URL)
		run := reconciletest.New(t, w.sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				site, err := w.sites.Lister().Get(req.Key)
				if apierrors.IsNotFound(err) {
					return controller.Result{}, nil // the cascade deletes the disk
				}
				if err != nil {
					return controller.Result{}, err
				}
				result, err := external.Reconcile(ctx, driver, cloudtest.Spec{Size: len(site.Spec.Pages)},
					external.Settle(time.Millisecond))
				return controller.Result{RequeueAfter: result.RequeueAfter}, err
			}), controller.OwnsExternal(external.Configure(cloudtest.Client{Driver: driver},
			external.Config{Interval: 20 * time.Millisecond})))
		w.put("shop", "a", "b")
		for range 2 {
			got := run.Reconcile(t.Context(), "shop")
			succeeded(t, got)
			wrote(t, got) // in NATS
			if cloud.Of("shop") != "=2" || cloud.CreatedFor("shop") != 1 {
				t.Errorf("disk %q, created %d times", cloud.Of("shop"), cloud.CreatedFor("shop"))
			}
		}
		w.put("shop", "a", "b", "c")
		succeeded(t, run.Reconcile(t.Context(), "shop"))
		if cloud.Of("shop") != "=3" {
			t.Errorf("disk %q", cloud.Of("shop"))
		}
		got := run.Delete(t.Context(), "shop")
		if got.Err != nil || !got.TornDown || cloud.Count() != 0 {
			t.Errorf("torn down %v, %d disks left: %v", got.TornDown, cloud.Count(), got.Err)
		}
	})
}

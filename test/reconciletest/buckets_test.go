package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeysThatNoCacheHasAreNotWaitedFor: those of a wrong shape, and those outside of a client's filter.
func TestKeysThatNoCacheHasAreNotWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites = client[*Site](t, w.js, entity.Config{Kind: "Site", Bucket: "nsites", Namespaced: true, Filter: "eu.*"})
		if err := w.sites.Create(t.Context(), &Site{ObjectMeta: metav1.ObjectMeta{Namespace: "eu", Name: "shop"}}); err != nil {
			t.Fatal(err)
		}
		run := w.run(func(context.Context, controller.Request) (controller.Result, error) {
			w.raw("nsites", "us.blog", `{}`)
			return controller.Result{}, nil
		})
		for _, key := range []string{"us.shop", "eu.shop.more", "nowhere", "eu/shop", "eu.a/b", "_nagi.something"} {
			w.raw("nsites", key, `{"spec":{"pages":[]}}`)
			w.raw("pages", key, `{"spec":{"title":"`+key+`"}}`)
			w.raw("nsites-status", key, `{}`)
			got := run.Reconcile(t.Context(), "eu/shop")
			succeeded(t, got)
			if len(got.Written) != 1 || got.Written[0].Key != "us/blog" {
				t.Errorf("after a write to %s: wrote %v", key, got.Written)
			}
		}
	})
}

// TestABucketThatIsMadeAnewIsReadFromItsBeginning.
func TestABucketThatIsMadeAnewIsReadFromItsBeginning(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("shop")
		run := w.run(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			time.Sleep(time.Nanosecond) // no two buckets are made at the same time
			_ = w.js.DeleteKeyValue(ctx, counters.Bucket)
			kv, err := w.js.CreateKeyValue(ctx, counters)
			if err == nil {
				_, err = kv.PutString(ctx, "visits", "1")
			}
			return controller.Result{}, err
		})
		for range 3 {
			got := run.Reconcile(t.Context(), "shop")
			succeeded(t, got)
			wrote(t, got, "created counters/visits")
		}
	})
}

func TestAControllerWithoutTeardownIsReconciledToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites = client[*Site](t, w.js, entity.Config{Kind: "Site", Bucket: "bare", StatusBucket: "-"})
		w.put("shop", "a")
		run := reconciletest.New(t, w.sites, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				if req.Operations.Has(controller.OperationDelete) {
					return controller.Result{}, w.pages.Delete(ctx, "shop.a")
				}
				page := &Page{ObjectMeta: metav1.ObjectMeta{Name: "shop.a"}}
				_, err := controller.CreateOrUpdate(ctx, w.pages, page, func(*Page) error { return nil })
				return controller.Result{}, err
			}), controller.Owns(w.pages), controller.WithoutTeardown())
		got := run.Reconcile(t.Context(), "shop")
		succeeded(t, got)
		wrote(t, got, "created Page shop.a")
		got = run.Delete(t.Context(), "shop")
		succeeded(t, got)
		wrote(t, got, "deleted Page shop.a")
		if !got.TornDown {
			t.Error("it is not torn down")
		}
	})
}

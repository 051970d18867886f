package reconciletest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One site is reconciled twice and deleted. Nothing runs but what is called here.
func Example() {
	t := &exampleT{} // in a test: its *testing.T
	defer t.done()

	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, _ := entity.NewClient[*Site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites"})
	pages, _ := entity.NewClient[*Page](t.Context(), js, entity.Config{Kind: "Page", Bucket: "pages"})
	reconciler := controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		site, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil // it is gone, and what it owns goes with it
		}
		if err != nil {
			return controller.Result{}, err
		}
		home := &Page{ObjectMeta: metav1.ObjectMeta{Name: req.Key + ".home"}}
		_, err = controller.CreateOrUpdate(ctx, pages, home, func(page *Page) error {
			page.Spec.Title = "Home"
			return nil
		})
		if err != nil {
			return controller.Result{}, err
		}
		site.Status.Pages = 1
		return controller.Result{}, controller.SetStatus(ctx, site)
	})

	run := reconciletest.New(t, sites, reconciler, controller.Owns(pages))
	_ = sites.Create(t.Context(), &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})

	got := run.Reconcile(t.Context(), "shop", controller.OperationPut)
	fmt.Println(got.Written, got.Status.Status.Pages, got.Condition.Reason, got.Err)
	got = run.Reconcile(t.Context(), "shop", controller.OperationResync)
	fmt.Println(got.Written, got.Condition.Reason, got.Err)
	got = run.Delete(t.Context(), "shop")
	fmt.Println(got.Written, got.TornDown, got.Err)
	// Output:
	// [created Page shop.home] 1 Synced <nil>
	// [] Synced <nil>
	// [deleted Page shop.home] true <nil>
}

// exampleT stands in for a *testing.T, which an Example does not get.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                  {}
func (t *exampleT) Context() context.Context { return context.Background() }
func (t *exampleT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func (t *exampleT) done() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

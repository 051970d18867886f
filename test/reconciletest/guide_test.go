package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reconciler is the reconciler of the guide.
type Reconciler struct {
	sites *entity.Client[*Site]
	pages *entity.Client[*Page]
}

// Reconcile implements controller.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	return (&world{sites: r.sites, pages: r.pages}).Reconcile(ctx, req)
}

// The guide of the package comment, word for word:

func TestASiteHasItsPages(t *testing.T) {
	ctx := t.Context()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	pages, err2 := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	run := reconciletest.New(t, sites, &Reconciler{sites, pages}, controller.Owns(pages))
	shop := &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: SiteSpec{Pages: []string{"home"}}}
	if err := sites.Create(ctx, shop); err != nil {
		t.Fatal(err)
	}
	got := run.Reconcile(ctx, "shop", controller.OperationPut)
	if got.Err != nil || got.Status.Status.Pages != 1 || fmt.Sprint(got.Written) != "[created Page shop.home]" {
		t.Errorf("wrote %v: %v", got.Written, got.Err)
	}
	if got = run.Reconcile(ctx, "shop", controller.OperationResync); len(got.Written) > 0 {
		t.Errorf("it is not calm: wrote %v", got.Written)
	}
	if got = run.Delete(ctx, "shop"); !got.TornDown || fmt.Sprint(got.Written) != "[deleted Page shop.home]" {
		t.Errorf("deleted %v: %v", got.Written, got.Err)
	}
}

func TestTheGuideIsTheTestAboveInAtMost25Lines(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	above, err := os.ReadFile("guide_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(comment), "//\tfunc TestASiteHasItsPages")
	guide, _, found := strings.Cut(rest, "\n//\t}\n")
	guide = strings.ReplaceAll("func TestASiteHasItsPages"+guide+"\n}\n", "\n//\t", "\n")
	if !found || !strings.Contains(string(above), guide) || strings.Count(guide, "\n") > 25 {
		t.Errorf("the guide is not what is tested, or has %d lines:\n%s", strings.Count(guide, "\n"), guide)
	}
}

package main

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReconcile is a unit test of the reconciler: each run is one call, and nothing else runs.
func TestReconcile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	r, err := newReconciler(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	run := reconciletest.New(t, r.websites, r, controller.Owns(r.pages), controller.Owns(r.routes))
	reconciled := func(site *Website, err error) reconciletest.Outcome[*Website] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got := run.Reconcile(ctx, site.Name)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		return got
	}

	blog := &Website{
		ObjectMeta: metav1.ObjectMeta{Name: "blog"},
		Spec:       WebsiteSpec{Domain: "blog.example", Pages: []string{"home", "about"}},
	}
	got := reconciled(blog, r.websites.Create(ctx, blog))
	want := "[created Route blog created Page blog.home created Page blog.about]"
	if fmt.Sprint(got.Written) != want || got.Status.Status != (WebsiteStatus{URL: "https://blog.example/", Pages: 2}) {
		t.Errorf("a new website: status %+v, wrote %v, want %v", got.Status.Status, got.Written, want)
	}
	if got = reconciled(blog, nil); len(got.Written) > 0 {
		t.Errorf("nothing has changed, but it wrote %v", got.Written)
	}

	blog.Spec.Pages = []string{"home", "contact"}
	got = reconciled(blog, r.websites.Update(ctx, blog))
	want = "[created Page blog.contact deleted Page blog.about]"
	if fmt.Sprint(got.Written) != want {
		t.Errorf("other pages: wrote %v, want %v", got.Written, want)
	}

	if got = run.Delete(ctx, "blog"); !got.TornDown || len(got.Written) != 3 {
		t.Errorf("deleted: torn down %v, wrote %v: %v", got.TornDown, got.Written, got.Err)
	}
}

package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/natstest/leaks"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaks.OfServer()...) }

// A Site has a page for each name in its spec.
type (
	SiteSpec struct {
		Pages []string `json:"pages,omitempty"`
	}
	SiteStatus struct {
		Pages int `json:"pages,omitempty"`
	}
	PageSpec struct {
		Title string `json:"title"`
	}
	Site = entity.Object[SiteSpec, SiteStatus]
	Page = entity.Object[PageSpec, SiteStatus]
)

// world is a server with sites and pages.
type world struct {
	t     *testing.T
	js    jetstream.JetStream
	sites *entity.Client[*Site]
	pages *entity.Client[*Page]
	// asked are the operations that the reconciler was called with.
	asked []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	w := &world{t: t, js: js}
	w.sites = client[*Site](t, js, entity.Config{Kind: "Site", Bucket: "sites"})
	w.pages = client[*Page](t, js, entity.Config{Kind: "Page", Bucket: "pages"})
	return w
}

func client[T entity.IEntity](t *testing.T, js jetstream.JetStream, cfg entity.Config) *entity.Client[T] {
	t.Helper()
	c, err := entity.NewClient[T](t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Reconcile makes the pages of a site, as a user's reconciler does.
func (w *world) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	w.asked = append(w.asked, req.Operations.String())
	site, err := w.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	for _, title := range site.Spec.Pages {
		page := &Page{ObjectMeta: metav1.ObjectMeta{Name: site.Name + "." + title}}
		if _, err := controller.CreateOrUpdate(ctx, w.pages, page, func(page *Page) error {
			page.Spec.Title = title
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
	}
	site.Status.Pages = len(site.Spec.Pages)
	return controller.Result{}, controller.SetStatus(ctx, site)
}

func (w *world) put(name string, pages ...string) {
	w.t.Helper()
	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: SiteSpec{Pages: pages}}
	err := w.sites.Create(w.t.Context(), site)
	if apierrors.IsAlreadyExists(err) {
		live, err := w.sites.Get(w.t.Context(), name)
		if err != nil {
			w.t.Fatal(err)
		}
		live.Spec = site.Spec
		if err := w.sites.Update(w.t.Context(), live); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// raw puts a document past the client.
func (w *world) raw(bucket, key, document string) {
	w.t.Helper()
	kv, err := w.js.KeyValue(w.t.Context(), bucket)
	if err == nil {
		_, err = kv.PutString(w.t.Context(), key, document)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(r controller.ReconcilerFunc, opts ...controller.Option) *reconciletest.Runner[*Site] {
	w.t.Helper()
	return reconciletest.New(w.t, w.sites, r, append(opts, controller.Owns(w.pages))...)
}

// wrote fails the test unless these were written, in this order.
func wrote(t *testing.T, got reconciletest.Outcome[*Site], want ...string) {
	t.Helper()
	if fmt.Sprint(got.Written) != fmt.Sprint(want) {
		t.Errorf("wrote %v, want %v", got.Written, want)
	}
}

func succeeded(t *testing.T, got reconciletest.Outcome[*Site]) {
	t.Helper()
	if got.Err != nil {
		t.Fatalf("%v (%+v)", got.Err, got.Condition)
	}
}

var (
	errBoom  = errors.New("boom")
	counters = jetstream.KeyValueConfig{Bucket: "counters"}
)

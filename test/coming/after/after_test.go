package after

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// names is a DNS that notes what it is told.
type names struct {
	mu   sync.Mutex
	said []string
}

func (n *names) Point(_ context.Context, name string) error { return n.note("point " + name) }

func (n *names) Remove(_ context.Context, name string) error { return n.note("remove " + name) }

func (n *names) note(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, what)
	return nil
}

func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.said)
}

func clients(t *testing.T, js jetstream.JetStream) (*entity.Client[*Site], *entity.Client[*Page]) {
	t.Helper()
	sites, err := entity.NewClient[*Site](t.Context(), js, entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sites.Close)
	pages, err := NewPages(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pages.Close)
	return sites, pages
}

func home(labels map[string]string) *Site {
	return &Site{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "home", Labels: labels}, Spec: SiteSpec{Title: "Home"},
	}
}

func TestASiteIsPublishedAndTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		sites, pages := clients(t, js)
		dns := &names{}
		c, err := controller.New("sites", sites, &SiteReconciler{Sites: sites, Pages: pages, DNS: dns},
			controller.Owns(pages))
		if err != nil {
			t.Fatal(err)
		}
		natstest.Run(t, c.Run)

		if err := sites.Create(t.Context(), home(nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		page, err := pages.Get(t.Context(), "shop/home")
		if err != nil || page.Spec.Title != "Home" {
			t.Errorf("page %+v, error %v", page, err)
		}
		if err := sites.Delete(t.Context(), "shop/home"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := pages.Get(t.Context(), "shop/home"); !apierrors.IsNotFound(err) {
			t.Errorf("the page is still there: %v", err)
		}
		said := dns.all()
		if last := len(said) - 1; last < 1 || said[last] != "remove shop/home" {
			t.Errorf("DNS was told %q", said)
		}
	})
}

func TestTheProgramRuns(t *testing.T) {
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL())
	natstest.Run(t, func(ctx context.Context) error {
		return Run(ctx, manager.Config{URL: srv.URL()}, "127.0.0.1:0", &names{})
	})
	sites, _ := clients(t, js)
	if err := sites.Create(t.Context(), home(nil)); err != nil {
		t.Fatal(err)
	}
	if err := entity.WaitReconciled(t.Context(), sites, "shop/home", 1); err != nil {
		t.Error(err)
	}
}

// quiet records no events.
type quiet struct{ said []string }

func (q *quiet) Event(_ runtime.Object, _, reason, _ string) { q.said = append(q.said, reason) }

func TestAReconcileByHand(t *testing.T) {
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, pages := clients(t, js)
	r := &SiteReconciler{Sites: sites, Pages: pages, DNS: &names{}}
	run := reconciletest.New(t, sites, r, controller.Owns(pages))
	if err := sites.Create(t.Context(), home(nil)); err != nil {
		t.Fatal(err)
	}
	got := run.Reconcile(t.Context(), "shop/home")
	if got.Err != nil || len(got.Written) != 1 || len(got.Status.Status.Conditions) != 1 {
		t.Errorf("error %v, written %v, status %+v", got.Err, got.Written, got.Status)
	}
}

func TestASiteWithoutATitleIsParked(t *testing.T) {
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, _ := clients(t, js)
	events := &quiet{}
	run := reconciletest.New(t, sites, (&SiteReconciler{Events: events}).Validated())
	site := home(nil)
	site.Spec.Title = ""
	if err := sites.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	got := run.Reconcile(t.Context(), "shop/home")
	if !errors.Is(got.Err, errNoTitle) || got.Condition.Reason != entity.ReasonTerminal {
		t.Errorf("error %v, condition %+v", got.Err, got.Condition)
	}
	if !slices.Equal(events.said, []string{"Untitled"}) {
		t.Errorf("events %q", events.said)
	}
}

func TestTheLastDocumentIsThereForTheCleanUp(t *testing.T) {
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, _ := clients(t, js)
	dns := &names{}
	run := reconciletest.New(t, sites, WithDNS(dns))
	if err := sites.Create(t.Context(), home(nil)); err != nil {
		t.Fatal(err)
	}
	run.Reconcile(t.Context(), "shop/home")
	run.Delete(t.Context(), "shop/home")
	if want := []string{"point Home", "remove Home"}; !slices.Equal(dns.all(), want) {
		t.Errorf("DNS was told %q, want %q", dns.all(), want)
	}
}

func TestPreviewsAreDeletedAndNoOthers(t *testing.T) {
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	sites, _ := clients(t, js)
	for name, labels := range map[string]map[string]string{"a": {"preview": "true"}, "b": nil} {
		site := home(labels)
		site.Name = name
		if err := sites.Create(t.Context(), site); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := DeletePreviews(t.Context(), sites); n != 1 || err != nil {
		t.Errorf("deleted %d, error %v", n, err)
	}
	if _, err := sites.Get(t.Context(), "shop/b"); err != nil {
		t.Error(err)
	}
}

package manager_test

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inProduction runs the run of Example_production until stop, which returns its error.
func inProduction(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-ended
	}
}

// TestTheControllerOfProductionTakesADocumentFromItsCreateToItsEnd, through updates, deletes and restarts: everybody
// copies it. What is deleted is torn down, whether the controller runs or not, and its record goes.
func TestTheControllerOfProductionTakesADocumentFromItsCreateToItsEnd(t *testing.T) {
	server := natstest.Start(t)
	t.Setenv("NATS_URL", server.URL())
	_, js := natstest.Connect(t, server.URL())
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	websites, err := entity.NewClient[*Website](ctx, js, entity.Config{Kind: "Website", Bucket: "websites"})
	must(t, err)
	defer websites.Close()
	website := func(name string) *Website {
		return &Website{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: websiteSpec{Title: "first"}}
	}
	reconciled := func(w *Website) {
		t.Helper()
		must(t, entity.WaitReconciled(ctx, websites, w.Name, uint64(w.Generation)))
		if now, err := websites.Get(ctx, w.Name); err != nil || !now.Status.Published || now.Spec != w.Spec {
			t.Errorf("%s is %+v, error %v", w.Name, now, err)
		}
	}
	ends := func(name string) {
		t.Helper()
		patience, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		must(t, entity.WaitDeleted(patience, websites, name))
		if rec, err := websites.Record(ctx, name); !apierrors.IsNotFound(err) {
			t.Errorf("the record of %s is %+v, error %v", name, rec, err)
		}
	}

	must(t, makeBuckets(ctx))
	stop := inProduction(t)
	shop, blog, wiki := website("shop"), website("blog"), website("wiki")
	for _, w := range []*Website{shop, blog, wiki} {
		must(t, websites.Create(ctx, w))
		reconciled(w)
	}
	shop.Spec.Title = "second"
	must(t, websites.Update(ctx, shop))
	reconciled(shop)
	must(t, websites.Delete(ctx, "shop"))
	ends("shop")

	must(t, stop())
	must(t, websites.Delete(ctx, "blog"))
	wiki.Spec.Title = "while it is down"
	must(t, websites.Update(ctx, wiki))
	stop = inProduction(t)
	reconciled(wiki)
	ends("blog")
	must(t, websites.Delete(ctx, "wiki", entity.Purge()))
	ends("wiki")
	again := website("shop")
	must(t, websites.Create(ctx, again))
	reconciled(again)
	must(t, stop())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

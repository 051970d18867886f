package worlds

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatAnotherReplicaWroteIsNoOwnWrite: a replica whose cache is behind finds, as it creates a page, that another
// one has written it as it should be. It writes nothing, and its cache may show the page later.
func TestWhatAnotherReplicaWroteIsNoOwnWrite(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		replica := func(name, url string) *Process {
			p := &Process{Name: name, world: fabricated()}
			p.Conn, p.JetStream = natstest.Connect(t, url)
			t.Cleanup(func() {
				for _, f := range p.closing {
					f()
				}
			})
			return p
		}
		ctx := t.Context()
		one, behind := replica("r1", server.URL()), replica("r2", proxy.URL())
		sites, pages, err := clientsOf(ctx, one)
		if err != nil {
			t.Fatal(err)
		}
		seen, cached, err := clientsOf(ctx, behind)
		if err != nil {
			t.Fatal(err)
		}
		if err := sites.Create(ctx, &site{
			ObjectMeta: metav1.ObjectMeta{Name: "k1"}, Spec: siteSpec{Title: "t", Pages: 1},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := seen.Lister().Get("k1"); err != nil { // starts its cache
			t.Fatal(err)
		}
		if _, err := cached.Lister().List(nil); err != nil {
			t.Fatal(err)
		}
		proxy.Tamper(natstest.Each(isNews, natstest.Fate{Lost: true}))
		if err := pages.Create(ctx, &page{
			ObjectMeta: metav1.ObjectMeta{Name: pageName("k1", 0)}, Spec: pageSpec{Title: "t"},
		}); err != nil {
			t.Fatal(err)
		}
		// Its end is about the status, which is not written outside of a controller.
		_, _ = reconcilerOf(behind, seen, cached).Reconcile(ctx, controller.Request{Key: "k1"})
		behind.world.wants(t)
		if _, err := cached.Lister().Get(pageName("k1", 0)); err == nil {
			t.Error("the cache is not behind, so this shows nothing")
		}
	})
}

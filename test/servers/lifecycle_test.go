package servers

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDocumentsLiveTheirLife: they are created, changed and deleted, and what they own, their status and their records
// follow. Nothing of the controller is left on the server.
func TestDocumentsLiveTheirLife(t *testing.T) {
	onEach(t, func(w *world) {
		ctx := w.t.Context()
		r := w.lead()
		w.make("changed", "deleted", "purged", "stays")

		s, err := w.sites.Get(ctx, "changed")
		must(w.t, err)
		s.Spec.Title = "second"
		must(w.t, w.sites.Update(ctx, s))
		w.reconciled(s)
		must(w.t, w.pages.Delete(ctx, "changed"))
		natstest.Eventually(w.t, "a page that somebody deleted comes back", func() bool {
			p, err := w.pages.Get(ctx, "changed")
			return err == nil && p.Spec.Title == "second"
		})

		must(w.t, w.sites.Delete(ctx, "deleted"))
		must(w.t, w.sites.Delete(ctx, "purged", entity.Purge()))
		w.tornDown("deleted", "purged")
		if !r.told("deleted", controller.OperationDelete) || !r.told("purged", controller.OperationPurge) {
			w.t.Error("the reconciler was not told of the delete, or of the purge")
		}
		w.make("deleted")
		w.left("changed", "deleted", "stays")
		if stats := r.Stats(); len(stats.Degraded) > 0 || stats.BrakeEngaged > 0 || stats.Failures > 0 {
			w.t.Errorf("all went well, and yet: %+v", stats)
		}
		r.halt()
		for _, bucket := range []string{"sites", "sites-status", "pages"} {
			stream, err := w.js.Stream(ctx, "KV_"+bucket)
			must(w.t, err)
			if n := stream.CachedInfo().State.Consumers; n != 0 {
				w.t.Errorf("%d consumers of %s are left", n, bucket)
			}
		}
	})
}

// TestDeletesWhileNobodyWatchesAreOwed, whether or not the server still has their markers.
func TestDeletesWhileNobodyWatchesAreOwed(t *testing.T) {
	onEach(t, func(w *world) {
		ctx := w.t.Context()
		r := w.lead()
		w.make("deleted", "forgotten", "purged", "stays")
		r.halt()

		must(w.t, w.sites.Delete(ctx, "forgotten"))
		kv, err := w.js.KeyValue(ctx, "sites")
		must(w.t, err)
		must(w.t, kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(-1)))
		must(w.t, w.sites.Delete(ctx, "deleted"))
		must(w.t, w.sites.Delete(ctx, "purged", entity.Purge()))
		if op := w.header("sites", "forgotten", "KV-Operation"); op != "" {
			w.t.Fatalf("there is still a marker %s", op)
		}
		w.left("deleted", "forgotten", "purged", "stays") // nobody did anything

		r = w.lead()
		w.tornDown("deleted", "forgotten", "purged")
		w.left("stays")
		if n := r.Stats().BrakeEngaged; n > 0 {
			w.t.Errorf("the brake engaged %d times", n)
		}
	})
}

// TestTheLeaseIsHandedOver by a replica that stops, at once, and by one that is cut off, when its lease has run out.
func TestTheLeaseIsHandedOver(t *testing.T) {
	onEach(t, func(w *world) {
		long := controller.WithLeaseTiming(controller.LeaseTiming{
			Duration: 5 * time.Minute, RenewDeadline: time.Minute, RetryPeriod: 100 * time.Millisecond})
		short := controller.WithLeaseTiming(controller.LeaseTiming{
			Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond})
		first := w.lead(long)
		second := w.run(short)
		w.make("one")
		if s := second.Stats(); s.Leading || s.Reconciles > 0 {
			w.t.Fatalf("the second works beside the first: %+v", s)
		}
		first.halt()
		natstest.Eventually(w.t, "the second leads", func() bool { return second.Stats().Leading })
		w.make("two")
		third := w.run(short)
		second.nc.Close()
		natstest.Eventually(w.t, "the third leads", func() bool { return third.Stats().Leading })
		w.make("three")
		w.left("one", "three", "two")
		if first.told("two", controller.OperationPut) || second.told("three", controller.OperationPut) {
			w.t.Error("a replica worked after its lease")
		}
	})
}

// TestAStoreMovesThroughAllVersions, as in years of upgrades: documents, records and the lease stay as they are, and
// deletes during an upgrade are owed.
func TestAStoreMovesThroughAllVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, versions[0])
	w.lead()
	w.make("site-0", "stays")
	before := ""
	for i, v := range versions[1:] {
		r := w.run()
		r.halt() // a replica that never led
		doomed, next := siteName(i), siteName(i+1)
		w.server.become(v)
		natstest.Eventually(t, "the user is connected", w.js.Conn().IsConnected)
		must(t, w.sites.Delete(t.Context(), doomed))
		w.tornDown(doomed)
		w.make(next)
		w.left(next, "stays")
		s, err := w.sites.Get(t.Context(), "stays")
		must(t, err)
		if before != "" && s.ResourceVersion != before {
			t.Errorf("after the upgrade to %s* the document is at revision %s, it was at %s", v.line, s.ResourceVersion, before)
		}
		before = s.ResourceVersion
	}
}

func siteName(i int) string { return "site-" + string(rune('0'+i)) }

// TestAListMissesNoKeyWhileOthersWrite.
func TestAListMissesNoKeyWhileOthersWrite(t *testing.T) {
	onEach(t, func(w *world) {
		const keys, writers = 1000, 4
		ctx := w.t.Context()
		name := func(i int) string {
			return "k" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
		}
		for i := range keys {
			w.put(name(i), spec{Title: "first"}, nil)
		}
		stop := make(chan struct{})
		ended := make(chan error, writers)
		for n := range writers {
			_, js := natstest.Connect(w.t, w.url)
			go func() {
				for i := n; ; i = (i + writers) % keys {
					select {
					case <-stop:
						ended <- nil
						return
					default:
					}
					if _, err := js.Publish(ctx, "$KV.sites."+name(i), []byte(`{"spec":{"title":"later"}}`)); err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		for range 10 {
			_, js := natstest.Connect(w.t, w.url)
			c := w.client(js, "Site", "sites")
			done, err := c.Start()
			must(w.t, err)
			natstest.Eventually(w.t, "the list is complete", c.Informer().HasSynced)
			if n := len(c.Informer().GetStore().ListKeys()); n != keys {
				w.t.Errorf("%d keys of %d are in the store", n, keys)
			}
			done()
			c.Close()
		}
		close(stop)
		for range writers {
			must(w.t, <-ended)
		}
		must(w.t, w.sites.Create(ctx, &site{ObjectMeta: metav1.ObjectMeta{Name: "last"}}))
		if err := w.sites.Create(ctx, &site{ObjectMeta: metav1.ObjectMeta{Name: "last"}}); !apierrors.IsAlreadyExists(err) {
			w.t.Errorf("got %v", err)
		}
	})
}

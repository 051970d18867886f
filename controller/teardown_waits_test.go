package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// saysDeleting looks at the record of a teardown that waits: soon it says for what, and time alone writes nothing more.
func (w *world) saysDeleting(t *testing.T, sites *entity.Client[*site], key, waitsFor string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	rec, err := sites.Record(t.Context(), key)
	must(t, err)
	if says := messageOf(rec, entity.ConditionDeleting); rec.Phase() != entity.PhaseDeleting ||
		!strings.Contains(says, waitsFor) || !strings.Contains(condition(t, sites, key).Message, waitsFor) {
		t.Errorf("a teardown that waits is %s: %+v; want it to wait for %q", rec.Phase(), rec.Conditions, waitsFor)
	}
	before := recordRevision(t, w.js, key)
	time.Sleep(10 * time.Minute)
	if recordRevision(t, w.js, key) != before {
		t.Error("ten minutes of waiting have written the record")
	}
}

func recordRevision(t *testing.T, js jetstream.JetStream, key string) uint64 {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "sites-status")
	must(t, err)
	entry, err := kv.Get(t.Context(), key)
	must(t, err)
	return entry.Revision()
}

// TestARecordSaysDeletingWhileItsTeardownWaits, for whatever it waits.
func TestARecordSaysDeletingWhileItsTeardownWaits(t *testing.T) {
	t.Run("for an API that is away", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newCloudWorld(t, withInterval(notInATest), nil, WithResyncInterval(0))
			w.run(w.c)
			must(t, w.sites.Create(t.Context(), sized("home", 1)))
			explained(t, w.c, "home", StateCalm)
			w.cloud.GoAway(false)
			must(t, w.sites.Delete(t.Context(), "home"))
			w.saysDeleting(t, w.sites, "home", "the API of Disk, which is away")
			w.cloud.ComeBack()
			explained(t, w.c, "home", StateUnknown)
		})
	})
	t.Run("for the reconciler", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			sites := w.sites()
			c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{RequeueAfter: 10 * time.Second}, nil
				}
				return Result{}, nil
			}), WithResyncInterval(0))
			must(t, err)
			w.run(c)
			must(t, sites.Create(t.Context(), newSite("home", "one")))
			explained(t, c, "home", StateCalm)
			must(t, sites.Delete(t.Context(), "home"))
			w.saysDeleting(t, sites, "home", "the reconciler")
		})
	})
	t.Run("for what it owned", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			sites, pages := w.sites(), &hooked{Client: w.pages()}
			pages.onDelete = func(string, func() error) error { return nil } // says yes, and deletes nothing
			c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages), WithResyncInterval(0))
			must(t, err)
			w.run(c)
			must(t, sites.Create(t.Context(), siteWithPages("home", 1)))
			explained(t, c, "home", StateCalm)
			must(t, sites.Delete(t.Context(), "home"))
			w.saysDeleting(t, sites, "home", "still there")
		})
	})
}

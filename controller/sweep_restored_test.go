package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestWhatABackupOfSecondariesBringsBackIsSweptWithinSeconds, and not at the end of an interval of ten minutes.
func TestWhatABackupOfSecondariesBringsBackIsSweptWithinSeconds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(10*time.Minute))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, pages.Create(t.Context(), w.ownedPage("front", "home")))
		backup, err := natstest.TakeSnapshot(t.Context(), w.js.Conn(), "KV_pages")
		must(t, err)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		must(t, w.js.DeleteStream(t.Context(), "KV_pages"))
		must(t, backup.Restore(t.Context(), w.js.Conn()))
		restored := time.Now()
		kv, err := w.js.KeyValue(t.Context(), "pages")
		must(t, err)
		if _, err := kv.Get(t.Context(), "front"); err != nil {
			t.Fatalf("the backup does not bring it back: %v", err)
		}
		natstest.Eventually(t, "it is gone again", func() bool {
			_, err := kv.Get(t.Context(), "front")
			return errors.Is(err, jetstream.ErrKeyNotFound)
		})
		if took := time.Since(restored); took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

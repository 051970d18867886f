package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// mirrored makes a mirror of a bucket at the edge.
func (w *world) mirrored(bucket, mirror string) {
	w.t.Helper()
	_, err := w.js.CreateStream(w.t.Context(), jetstream.StreamConfig{
		Name: "KV_" + mirror, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		Mirror: &jetstream.StreamSource{Name: "KV_" + bucket},
	})
	must(w.t, err)
}

func noReconcile(context.Context, Request) (Result, error) { return Result{}, nil }

// TestAPrimaryWhoseRecordsAreAMirrorIsRefused: they could not be written, and one with a status bucket of its own runs.
func TestAPrimaryWhoseRecordsAreAMirrorIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		must(t, w.sites().Create(t.Context(), newSite("home", "Home")))
		w.mirrored("sites", "edge")
		w.mirrored("sites-status", "edge-status")
		_, err := New("edge", w.client("Site", "edge"), ReconcilerFunc(noReconcile))
		if err == nil || !strings.Contains(err.Error(), `give its client a StatusBucket of its own`) ||
			!strings.Contains(err.Error(), `bucket "edge-status" can only be read: it is a mirror of KV_sites-status: `+
				`write to bucket "sites-status"`) {
			t.Errorf("got error %v", err)
		}
		if _, err := New("edge", w.client("Site", "edge"), ReconcilerFunc(noReconcile), WithoutTeardown()); err != nil {
			t.Errorf("without records: %v", err)
		}
		own := func(cfg *entity.Config) { cfg.StatusBucket = "of-the-edge" }
		calls := calls{}
		c, err := New("edge", w.client("Site", "edge", own), calls.reconciler(noReconcile))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it is reconciled", func() bool { return calls.count("home") > 0 })
		must(t, w.sites().Delete(t.Context(), "home"))
		natstest.Eventually(t, "it is torn down", func() bool { return calls.with("home", OperationDelete) > 0 })
	})
}

// TestAMirrorIsWatchedAndNotOwned: secondaries are written.
func TestAMirrorIsWatchedAndNotOwned(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pages()
		w.mirrored("pages", "pages-edge")
		edge := w.client("Page", "pages-edge", func(cfg *entity.Config) { cfg.StatusBucket = entity.NoStatusBucket })
		_, err := New("sites", w.sites(), ReconcilerFunc(noReconcile), Owns(edge))
		if err == nil || !strings.Contains(err.Error(), "use Watches for what is only read") ||
			!strings.Contains(err.Error(), `bucket "pages-edge" can only be read`) {
			t.Errorf("got error %v", err)
		}
		calls := calls{}
		c, err := New("sites", w.sites(), calls.reconciler(noReconcile),
			Watches(edge, func(context.Context, *page) ([]string, error) { return []string{"home"}, nil }))
		must(t, err)
		must(t, w.sites().Create(t.Context(), newSite("home", "Home")))
		w.run(c)
		must(t, w.pages().Create(t.Context(), newPage("first", "First")))
		natstest.Eventually(t, "its primary is reconciled", func() bool { return calls.with("home", OperationTertiary) > 0 })
	})
}

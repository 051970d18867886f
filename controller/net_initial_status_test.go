package controller

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAMapperSeesTheStatusOfTheInitialList, though the records come later than the documents.
func TestAMapperSeesTheStatusOfTheInitialList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		writer := w.client("Theme", "themes")
		ready := newSite("ready", "")
		must(t, writer.Create(ctx, ready))
		ready.Status.Ready = true
		must(t, writer.UpdateStatus(ctx, ready))
		sites := w.sites()
		must(t, sites.Create(ctx, newSite("home", "")))

		behind, relay := w.behindRelay()
		relay.late("themes-status", 300*time.Millisecond)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil),
			Watches(behind.client("Theme", "themes"), func(_ context.Context, t *theme) ([]string, error) {
				if !t.Status.Ready {
					return nil, nil
				}
				return []string{"home"}, nil
			}))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "the mapper was shown the status", func() bool {
			return seen.with("home", OperationTertiary) > 0
		})
	})
}

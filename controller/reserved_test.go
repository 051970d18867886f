package controller

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAReservedKeyThatDoesNotDecodeIsReportedAndDecidedSafely: what the brake may have held stays held, a stream that
// is not known is another one, and whoever mends the key mends the controller.
func TestAReservedKeyThatDoesNotDecodeIsReportedAndDecidedSafely(t *testing.T) {
	degraded := func(c *Controller[*site], key string) bool {
		for name, err := range c.Stats().Degraded {
			if strings.Contains(name+err.Error(), key) && strings.Contains(err.Error(), "delete the key") {
				return true
			}
		}
		return false
	}
	for _, key := range []string{record.KeyBrake, record.KeyStream} {
		t.Run(key, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx, w := t.Context(), newWorld(t)
				sites := w.sites()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0))
				must(t, err)
				r := w.run(c)
				must(t, sites.Create(ctx, newSite("gone", "one")))
				must(t, sites.Create(ctx, newSite("home", "one")))
				eventuallyReason(t, sites, "gone", entity.ReasonSynced)
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				r.halt()
				must(t, sites.Delete(ctx, "gone"))
				w.put("sites-status", key, "release please")

				c, err = New("sites", w.sites(), seen.reconciler(nil), WithResyncInterval(0))
				must(t, err)
				w.run(c)
				must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
				natstest.Eventually(t, "the others go on", func() bool { return seen.count("home") >= 2 })
				natstest.Eventually(t, "the delete is held", func() bool { return c.Stats().Brake.Held == 1 })
				if !degraded(c, key) || seen.with("gone", OperationDelete) > 0 {
					t.Errorf("degraded: %v, torn down: %d", c.Stats().Degraded, c.Stats().TornDown)
				}
				must(t, c.ReleaseBrake(ctx))
				natstest.Eventually(t, "it is torn down", noRecord(t, sites, "gone"))
				natstest.Eventually(t, "nothing is wrong any more", func() bool { return len(c.Stats().Degraded) == 0 })
			})
		})
	}
}

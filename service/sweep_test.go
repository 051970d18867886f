package service

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestASweepFollowsAReleaseAndARestore within moments, and not at the end of the interval, until when what it held back
// of the last sweep kept it engaged. After a release it waits until what was released is gone from the caches.
func TestASweepFollowsAReleaseAndARestore(t *testing.T) {
	for name, end := range map[string]func(w *world, c *controlled) error{
		"release": func(w *world, c *controlled) error { return c.ReleaseBrake(w.Context()) },
		"restore": func(w *world, c *controlled) error {
			brake := c.Stats().Brake
			_, err := c.RestoreVanished(w.Context(), brake.Engagement, many)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.braked()
				time.Sleep(time.Second)
				before := c.Stats().Sweeps
				w.must(end(w, c))
				time.Sleep(10*time.Second + time.Millisecond)
				if s := c.Stats(); s.Sweeps == before || s.Brake.Engaged {
					t.Errorf("%d sweeps before and %d after, engaged: %v", before, s.Sweeps, s.Brake.Engaged)
				}
			})
		})
	}
}

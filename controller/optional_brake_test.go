package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
)

// TestTheBrakeWeighsWhatComesLate: a delete that was let go while a source was away is decided anew when the source
// comes and shows that most objects would go with it.
func TestTheBrakeWeighsWhatComesLate(t *testing.T) {
	for _, optional := range []bool{false, true} {
		t.Run(fmt.Sprintf("optional %v", optional), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx, w := t.Context(), newWorld(t)
				sites := w.sites()
				var maps []*corev1.ConfigMap
				run := func(k *lateCluster) (*Controller[*site], *running) {
					var seen calls
					c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0),
						OwnsKube(k.informer, WithDeleter(k), WithOptional()))
					must(t, err)
					for _, m := range maps {
						k.Add(m)
					}
					k.start(t)
					return c, w.run(c)
				}
				k := newLateCluster(t)
				k.installed.Store(true)
				_, r := run(k)
				for i := range 3 {
					must(t, sites.Create(ctx, newSite(siteName(i), "one")))
					eventuallyReason(t, sites, siteName(i), entity.ReasonSynced)
				}
				for i := range many {
					maps = append(maps, w.ownedMap(fmt.Sprintf("settings-%02d", i), siteName(0)))
				}
				r.halt()

				w.vanishing(0, 1)
				k = newLateCluster(t)
				k.installed.Store(!optional)
				c, _ := run(k)
				time.Sleep(10 * time.Minute)
				k.installed.Store(true)
				time.Sleep(10 * time.Minute)
				if n := len(k.asked()); n > 0 {
					t.Errorf("%d of %d objects were deleted with a primary that vanished", n, many)
				}
				if s := c.Stats(); s.BrakeEngaged != 1 {
					t.Errorf("the brake engaged %d times", s.BrakeEngaged)
				}
				must(t, c.ReleaseBrake(ctx))
				natstest.Eventually(t, "the release is for them", func() bool {
					return len(k.asked()) == many && c.Stats().TornDown == 1
				})
			})
		})
	}
}

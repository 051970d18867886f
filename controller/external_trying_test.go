package controller

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// awayForKeys lets the calls for single resources fail, while lists succeed, until sites wait. It returns what ends
// that.
func (w *cloudWorld) awayForKeys() *atomic.Int64 {
	w.t.Helper()
	w.run(w.c)
	natstest.Eventually(w.t, "it leads", func() bool { return w.c.Stats().Leading })
	status := w.cloud.Failing("GET find", http.StatusServiceUnavailable)
	w.manySites(6)
	natstest.Eventually(w.t, "they wait", func() bool {
		return w.away() && w.c.Stats().External["Disk"].Waiting >= 5
	})
	return status
}

// TestAnAPIIsBackThoughACallTakesLongerThanThePausesBetweenPolls: the poll must not take the trial away from the key
// that is at it.
func TestAnAPIIsBackThoughACallTakesLongerThanThePausesBetweenPolls(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil, WithWorkers(4))
		status := w.awayForKeys()
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Stage = func(stage, call, _ string) {
				if stage == "before" && call != "GET disks" {
					sleep(t.Context(), 2*quick.BackoffMax)
				}
			}
		})
		status.Store(0)
		natstest.Eventually(t, "all have their disks", func() bool { return w.cloud.Count() == 6 && !w.away() })
	})
}

func TestAnAPIIsBackThoughReconcilesDoSomethingElseFirst(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), func(w *cloudWorld) ReconcilerFunc {
			reconcile := disksOf(w.sites, w.driver, quickly...)
			return func(ctx context.Context, req Request) (Result, error) {
				sleep(ctx, 2*quick.BackoffMax)
				return reconcile(ctx, req)
			}
		}, WithWorkers(4))
		status := w.awayForKeys()
		status.Store(0)
		natstest.Eventually(t, "all have their disks", func() bool { return w.cloud.Count() == 6 && !w.away() })
	})
}

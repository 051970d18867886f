package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAHotKeyDoesNotSlowTheOthers: one key is changed 10,000 times a second. Another waits for the one worker, which is
// at the hot key, and not for the hot key's next turn. The hot key's events merge, and its last state is reconciled.
func TestAHotKeyDoesNotSlowTheOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const takes, changes, others = 5 * time.Millisecond, 1000, 10
		w := newWorld(t)
		sites := w.sites()
		var hot, hots atomic.Int64
		reconciled := make(chan time.Time, others)
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Key != "hot" {
				reconciled <- time.Now()
				return Result{}, nil
			}
			s, err := sites.Lister().Get("hot")
			if err != nil {
				return Result{}, err
			}
			time.Sleep(takes)
			hots.Add(1)
			hot.Store(int64(s.Spec.Pages))
			return Result{}, nil
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
		writer, began := w.away().js.Conn(), time.Now()
		for n := range changes {
			must(t, writer.Publish("$KV.sites.hot", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n+1)))
			must(t, writer.Flush())
			time.Sleep(100 * time.Microsecond)
			if n%(changes/others) == changes/others/2 {
				created := time.Now()
				must(t, sites.Create(t.Context(), newSite(keyNumber(n), "one")))
				if waited := receive(t, "a key that is not hot is reconciled", reconciled).Sub(created); waited > takes {
					t.Errorf("it waited %v, and the reconcile of the hot key takes %v", waited, takes)
				}
			}
		}
		natstest.Eventually(t, "the hot key's last state is reconciled", func() bool { return hot.Load() == changes })
		if n, most := hots.Load(), int64(time.Since(began)/takes); n < most/2 || n > most {
			t.Errorf("%d changes made %d reconciles of %v, want at most %d and not many fewer", changes, n, takes, most)
		}
	})
}

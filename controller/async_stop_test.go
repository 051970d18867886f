package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestRunEndsSoonAlthoughManyRecordsAreNotAcknowledged, because NATS is away when it is stopped: the next run writes
// again what is lost of them.
func TestRunEndsSoonAlthoughManyRecordsAreNotAcknowledged(t *testing.T) {
	for name, opt := range map[string]Option{
		"default grace": WithGracePeriod(30 * time.Second),
		"without limit": WithGracePeriod(-1),
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				proxy := natstest.StartProxy(t, w.server.URL())
				_, w.js = natstest.Connect(t, proxy.URL())
				sites := w.sites()
				w.make(sites, 300)
				entered, leave := make(chan string, 300), make(chan struct{})
				c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
					entered <- req.Key
					<-leave
					return Result{}, nil
				}), WithResyncInterval(0), opt)
				must(t, err)
				r := w.run(c)
				receive(t, "a reconcile", entered)
				proxy.Refuse()
				close(leave)
				natstest.Eventually(t, "many are under way", func() bool {
					return c.engine.QueueCounts().InProgress > 100
				})
				stopped := time.Now()
				r.halt()
				if took := time.Since(stopped); took > 10*time.Second { // each write is given up after five seconds
					t.Errorf("Run has returned after %v", took)
				}
			})
		})
	}
}

// TestKeysWhoseRecordsAreNotAcknowledgedHoldUpNoOthers, although each such write takes until it is given up.
func TestKeysWhoseRecordsAreNotAcknowledgedHoldUpNoOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		must(t, w.server.Server().GlobalAccount().AddMapping("$KV.sites-status.bad.>", "swallowed.>"))
		_, err := w.js.Conn().SubscribeSync("swallowed.>") // else the server would say that nobody takes them
		must(t, err)
		sites := w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = true })
		for n := range 20 {
			s := newSite(fmt.Sprintf("site-%d", n), "one")
			s.Namespace = "bad"
			must(t, sites.Create(t.Context(), s))
		}
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), WithWorkers(2))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "all of them are under way", func() bool {
			return c.engine.QueueCounts().InProgress == 20
		})
		good := newSite("home", "one")
		good.Namespace = "good"
		must(t, sites.Create(t.Context(), good))
		began := time.Now()
		for n := 1; n <= 5; n++ { // each revision waits for the outcome of the one before
			natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("good/home") == n })
			must(t, sites.Patch(t.Context(), "good/home", []byte(fmt.Sprintf(`{"spec":{"pages":%d}}`, n))))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("five revisions of another key took %v", took)
		}
	})
}

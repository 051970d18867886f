package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestACacheThatMayShowWhatIsGoneDoesNotWorkAgainAsItsSourceFails: that its source fails, too, mends nothing.
func TestACacheThatMayShowWhatIsGoneDoesNotWorkAgainAsItsSourceFails(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const news = "news of primary Site (bucket sites)"
		ctx, w := t.Context(), newWorld(t)
		admin, proxy := w.js, natstest.StartProxy(t, w.server.URL())
		_, w.js = natstest.Connect(t, proxy.URL())
		var seen calls
		sites := w.sites()
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(0), shortGrace())
		must(t, err)
		var log logLines
		w.run(logging{c, log.logger()})
		for i := range 70 {
			must(t, sites.Create(ctx, newSite(fmt.Sprint("s", i), "S")))
		}
		explained(t, c, "s69", StateCalm)
		time.Sleep(time.Minute)
		stream, err := admin.Stream(ctx, "KV_sites")
		must(t, err)
		for i := 0; c.Stats().Degraded[news] == nil; i++ {
			if i == 200 {
				t.Fatal("it is not degraded")
			}
			if i%3 == 0 {
				must(t, stream.Purge(ctx, jetstream.WithPurgeSubject(fmt.Sprint("$KV.sites.s", i/3))))
			}
			time.Sleep(time.Second)
		}
		proxy.Blackhole()
		time.Sleep(6 * time.Second)
		if c.Stats().Degraded["primary Site (bucket sites)"] == nil {
			t.Fatalf("the source does not fail: %v", c.Stats().Degraded)
		}
		if len(c.Explain("s69").Missing) == 0 {
			t.Fatal("nothing is missing, so this shows nothing")
		}
		if c.Stats().Degraded[news] == nil {
			t.Errorf("the cache may still show what is gone, and only this is degraded: %v", c.Stats().Degraded)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		for _, line := range log.lines {
			if line["source"] == news && line["msg"] == "Source works again" {
				t.Error("the log says that it works again")
			}
		}
	})
}

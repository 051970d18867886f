package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAPurgeEngagesTheBrakeWithinSeconds, and meanwhile Explain does not say more than is known.
func TestAPurgeEngagesTheBrakeWithinSeconds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen)
		for i := range 20 {
			must(t, sites.Create(ctx, newSite(fmt.Sprint("s", i), "S")))
		}
		explained(t, c, "s7", StateCalm)
		time.Sleep(time.Minute)
		stream, err := w.js.Stream(ctx, "KV_sites")
		must(t, err)
		must(t, stream.Purge(ctx))
		time.Sleep(5 * time.Second)
		if held := c.Stats().Brake; !held.Engaged {
			t.Errorf("5 s after the purge the brake is %+v", held)
		}
		if e := c.Explain("s7"); e.State != StateHeld {
			t.Errorf("5 s after the purge: %s", e.Says)
		}
	})
}

// TestExplainDoesNotKnowOfABucketThatIsGone what is due.
func TestExplainDoesNotKnowOfABucketThatIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, _, _ := w.runningSites(&seen)
		explained(t, c, "home", StateCalm)
		time.Sleep(time.Minute)
		must(t, w.js.DeleteStream(ctx, "KV_sites"))
		time.Sleep(2 * time.Second)
		if e := c.Explain("home"); len(e.Missing) == 0 || !strings.Contains(e.Says, "is not known") ||
			strings.Contains(e.Says, "as it should be:") {
			t.Errorf("2 s after the stream was deleted: %s", e.Says)
		}
	})
}

// TestExplainSaysThatAPurgeIsSuspected, until the cache shows what there is.
func TestExplainSaysThatAPurgeIsSuspected(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		admin, proxy := w.js, natstest.StartProxy(t, w.server.URL())
		var holds atomic.Bool
		creates := natstest.To("$JS.API.CONSUMER.CREATE.KV_sites.>")
		proxy.Tamper(func(m *natstest.Message) natstest.Fate {
			if holds.Load() && creates(m) {
				return natstest.Fate{Late: 10 * time.Second}
			}
			return natstest.Fate{}
		})
		_, w.js = natstest.Connect(t, proxy.URL())
		var seen calls
		c, _, _ := w.runningSites(&seen)
		explained(t, c, "home", StateCalm)
		time.Sleep(time.Minute)
		holds.Store(true)
		stream, err := admin.Stream(ctx, "KV_sites")
		must(t, err)
		must(t, stream.Purge(ctx))
		time.Sleep(5 * time.Second)
		e := c.Explain("home")
		if e.State != StateCalm || len(e.Missing) != 1 || strings.Contains(e.Says, "as it should be:") ||
			!strings.Contains(e.Says, "is not known") || !strings.Contains(e.Says, "2 keys are known and the stream has 0") {
			t.Errorf("while the stream is listed anew: %s", e.Says)
		}
		holds.Store(false)
		time.Sleep(20 * time.Second)
		if e := c.Explain("home"); len(e.Missing) > 0 {
			t.Errorf("it was listed: %s", e.Says)
		}
	})
}

// TestWhatIsPurgedAgainAndAgainShowsAsDegraded: the cache is listed anew after pauses that double, and until then it
// shows what is gone. What Explain says for twenty seconds, Degraded says too.
func TestWhatIsPurgedAgainAndAgainShowsAsDegraded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, sites, _ := w.runningSites(&seen)
		for i := range 40 {
			must(t, sites.Create(ctx, newSite(fmt.Sprint("s", i), "S")))
		}
		explained(t, c, "s39", StateCalm)
		time.Sleep(time.Minute)
		stream, err := w.js.Stream(ctx, "KV_sites")
		must(t, err)
		longest := time.Duration(0)
		for i := range 200 {
			if i%3 == 0 && i/3 < 39 {
				must(t, stream.Purge(ctx, jetstream.WithPurgeSubject(fmt.Sprint("$KV.sites.s", i/3))))
			}
			time.Sleep(time.Second)
			for _, m := range c.Explain("s39").Missing {
				lasts := time.Since(m.Since)
				longest = max(longest, lasts)
				if degraded := c.Stats().Degraded; lasts > 20*time.Second && len(degraded) == 0 {
					t.Fatalf("for %v Explain says %q, and nothing is degraded", lasts, m.Why)
				}
			}
		}
		if longest < 20*time.Second {
			t.Errorf("Explain said so for %v at most: no standstill was met", longest)
		}
		time.Sleep(10 * time.Minute)
		if degraded := c.Stats().Degraded; degraded["news of primary Site (bucket sites)"] != nil {
			t.Errorf("it is degraded still: %v", degraded)
		}
	})
}

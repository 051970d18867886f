package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
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

package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// brokenBefore starts a controller whose many sites stopped to decode while none ran, so that its cache has no version
// of them. It goes through the proxy.
func (w *world) brokenBefore() (*massed, *natstest.Proxy) {
	w.t.Helper()
	m := w.filled()
	m.r.halt()
	for i := range many {
		m.put("sites", siteName(i), `{"spec":`)
	}
	proxy := natstest.StartProxy(w.t, w.server.URL())
	_, js := natstest.Connect(w.t, proxy.URL())
	m = (&world{t: w.t, server: w.server, js: js}).massed()
	natstest.Eventually(w.t, "all are invalid", func() bool {
		return m.c.Stats().Invalid >= many && m.c.Stats().Leading
	})
	return m, proxy
}

// TestEvidencedMassDeletesOfInvalidDocumentsPass, because somebody wrote each of them.
func TestEvidencedMassDeletesOfInvalidDocumentsPass(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m, _ := newWorld(t).brokenBefore()
		for i := range many {
			must(t, m.kv("sites").Delete(t.Context(), siteName(i)))
		}
		m.tornDown()
		if n := m.c.Stats().BrakeEngaged; n != 0 {
			t.Errorf("the brake engaged %d times", n)
		}
	})
}

// TestTheBrakeHoldsInvalidDocumentsThatVanish without a marker, also where each answer of the leader, which is asked
// about each of them, takes longer than the brake waits for another suspect.
func TestTheBrakeHoldsInvalidDocumentsThatVanish(t *testing.T) {
	for name, delay := range map[string]time.Duration{"near": 0, "far": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m, proxy := w.brokenBefore()
				proxy.Delay(delay)
				stream, err := w.js.Stream(t.Context(), "KV_sites")
				must(t, err)
				must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites.>")))
				m.holds(many)
			})
		})
	}
}

// TestAMarkerThatTheLeaderHasIsRemembered: it is not asked again while the teardown goes on.
func TestAMarkerThatTheLeaderHasIsRemembered(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		var asked atomic.Int32
		start := func() (*Controller[*site], *running) {
			asking := &hooked{Client: sites, afterConfirm: func(string, entity.Presence) { asked.Add(1) }}
			c, err := New("sites", asking, seen.reconciler(func(_ context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{RequeueAfter: 10 * time.Millisecond}, nil
				}
				return Result{}, nil
			}))
			must(t, err)
			return c, w.run(c)
		}
		_, r := start()
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		r.halt()
		w.put("sites", "home", `{"spec":`)
		w = w.away()
		sites = w.sites()
		c, _ := start()
		natstest.Eventually(t, "it is invalid", func() bool { return c.Stats().Invalid > 0 && c.Stats().Leading })
		must(t, w.kv("sites").Delete(t.Context(), "home"))
		natstest.Eventually(t, "its teardown goes on", func() bool { return seen.with("home", OperationDelete) > 2 })
		if n := asked.Load(); n != 1 {
			t.Errorf("the leader was asked %d times, want once", n)
		}
	})
}

// TestADeleteIsNoEvidenceForTheNextDocument, which did not decode and vanished without one, while the teardown of the
// one before still waits.
func TestADeleteIsNoEvidenceForTheNextDocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", quickCompare)
		var deletes atomic.Int64
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				deletes.Add(1)
				return Result{RequeueAfter: time.Hour}, nil // not finished
			}
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		w.make(sites, many)
		w.settled(c, sites, many)
		for i := range many {
			must(t, sites.Delete(t.Context(), siteName(i)))
		}
		natstest.Eventually(t, "their teardowns wait", func() bool { return deletes.Load() == many })
		for i := range many {
			_, err := w.kv("sites").Put(t.Context(), siteName(i), []byte("no document"))
			must(t, err)
		}
		natstest.Eventually(t, "they are invalid", func() bool { return c.Stats().Invalid == many })
		w.emptied("sites") // at once: the brake looks at what vanishes together
		natstest.Eventually(t, "the brake holds all", func() bool { return c.Stats().Brake.Held == many })
		if n := deletes.Load(); n != many {
			t.Errorf("%d more teardowns", n-many)
		}
	})
}

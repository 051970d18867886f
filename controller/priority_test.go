package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestLiveChangeGoesBeforeTheBacklog(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []Option
	}{
		{"with records", nil},
		{"without", []Option{WithoutTeardown()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				const backlog = 50
				for n := range backlog {
					must(t, sites.Create(t.Context(), newSite(fmt.Sprintf("old-%02d", n), "one")))
				}
				g := newGate()
				c, err := New("sites", sites, g, append(test.opts, shortGrace())...)
				must(t, err)
				w.run(c)
				first := g.enter(t).Key
				natstest.Eventually(t, "the backlog waits", func() bool {
					n := c.engine.QueueCounts()
					return n.Ready[queue.BandBackground]+n.Ready[queue.BandSecondary] == backlog-1
				})
				raised := "old-49" // the youngest, or the one that came after it
				if raised == first {
					raised = "old-48"
				}
				must(t, sites.Create(t.Context(), newSite("new", "one")))
				must(t, sites.Patch(t.Context(), raised, []byte(`{"spec":{"pages":1}}`)))
				natstest.Eventually(t, "the live changes wait", func() bool { return c.Stats().Ready[0] == 2 })
				var order []string
				g.leave <- nil
				for range backlog {
					order = append(order, g.enter(t).Key)
					g.leave <- nil
				}
				// One hand-out in eight takes the oldest, so each live change may wait for one of the backlog.
				if at := slices.Index(order, "new"); at < 0 || at > 1 {
					t.Errorf("the new key was number %d, want the first, or the second after the oldest: %v", at+1, order)
				}
				if at := slices.Index(order, raised); at < 0 || at > 2 {
					t.Errorf("the key of the backlog that changed was number %d, want the second or third: %v", at+1, order)
				}
			})
		})
	}
}

// TestInvalidDocumentsDelayNoValidOne: somebody may write any number of them, and each costs a write of its record.
func TestInvalidDocumentsDelayNoValidOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		g := newGate()
		c, err := New("sites", sites, g, shortGrace())
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("first", "one")))
		g.enter(t)
		const invalid = 100
		for n := range invalid {
			_, err := w.js.Publish(t.Context(), fmt.Sprintf("$KV.sites.broken-%02d", n), []byte(`{"spec":`))
			must(t, err)
		}
		must(t, sites.Create(t.Context(), newSite("valid", "one")))
		natstest.Eventually(t, "all wait", func() bool {
			n := c.engine.QueueCounts().Ready
			return n[queue.BandLive]+n[queue.BandSecondary]+n[queue.BandBackground] == invalid+1
		})
		g.leave <- nil
		if key := g.enter(t).Key; key != "valid" {
			t.Fatalf("%q is reconciled", key)
		}
		reported := 0
		for n := range invalid {
			if _, found := sites.Records().Cached(fmt.Sprintf("broken-%02d", n)); found {
				reported++
			}
		}
		g.leave <- nil
		if reported > 1 { // one hand-out in eight takes the oldest
			t.Errorf("%d invalid documents went before the valid one", reported)
		}
	})
}

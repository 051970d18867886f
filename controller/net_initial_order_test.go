package controller

import (
	"context"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAChangedSecondaryGoesBeforeTheInitialList of a controller that was restarted: the secondaries of the list are
// backlog like their primaries. A live change of a secondary goes before all of them.
func TestAChangedSecondaryGoesBeforeTheInitialList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		w.make(sites, many)
		for i := range many {
			must(t, pages.Create(ctx, w.ownedPage(siteName(i), siteName(i))))
		}
		before, err := New("sites", sites, (&calls{}).reconciler(nil), Owns(pages))
		must(t, err)
		r := w.run(before)
		w.settled(before, sites, many)
		r.halt()

		blocked, order := make(chan struct{}), make(chan string, 10*many)
		unblock := sync.OnceFunc(func() { close(blocked) })
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			order <- req.Key
			<-blocked
			return Result{}, nil
		}), Owns(pages), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		defer unblock()
		first := <-order
		if ready := c.Stats().Ready; ready[0] != 0 || ready[1] != 0 || ready[2] < many-1 {
			t.Errorf("ready are %v by priority, want all in the background", ready)
		}
		changed := siteName(many / 2)
		if changed == first {
			changed = siteName(many/2 + 1)
		}
		must(t, pages.Patch(ctx, changed, []byte(`{"spec":{"title":"changed"}}`)))
		natstest.Eventually(t, "the change is due", func() bool { return c.Stats().Ready[1] == 1 })
		unblock()
		if next := receive(t, "another key is reconciled", order); next != changed {
			t.Errorf("the next key is %q, want %q, whose page has changed", next, changed)
		}
	})
}

package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestWhatFailedWhileASourceWasAwayIsTriedAtOnceWhenItIsBack, and not after a backoff of minutes.
func TestWhatFailedWhileASourceWasAwayIsTriedAtOnceWhenItIsBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites, pages := w.sites(), w.pages()
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, siteWithPages("first", 1)))
		explained(t, c, "first", StateCalm)
		must(t, w.js.DeleteStream(ctx, "KV_pages"))
		must(t, sites.Create(ctx, siteWithPages("home", 1)))
		time.Sleep(10 * time.Minute) // the pauses have jitter, so now may be within an attempt, or just before one
		natstest.Eventually(t, "the backoff lasts for a while, else the rest proves nothing", func() bool {
			e := c.Explain("home")
			return e.State == StateRetry && time.Until(e.DueAt) > 30*time.Second
		})
		w.pages()
		time.Sleep(3 * time.Second)
		if e := c.Explain("home"); e.State != StateCalm {
			t.Errorf("3 s after the bucket was made again: %s", e.Says)
		}
	})
}

// TestAResyncRetriesWhatFailedAtOnce, teardowns too.
func TestAResyncRetriesWhatFailedAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		sites := w.sites()
		var ill atomic.Bool
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			if ill.Load() {
				return Result{}, errors.New("no rights")
			}
			return Result{}, nil
		}), WithResyncInterval(0), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		for _, name := range []string{"home", "goes"} {
			must(t, sites.Create(ctx, newSite(name, "one")))
			explained(t, c, name, StateCalm)
		}
		ill.Store(true)
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
		must(t, sites.Delete(ctx, "goes"))
		time.Sleep(time.Minute)
		for _, name := range []string{"home", "goes"} {
			explained(t, c, name, StateRetry)
		}
		ill.Store(false)
		c.engine.EnqueueAll(operation.Of(operation.Resync), nil)
		time.Sleep(time.Second)
		if e := c.Explain("home"); e.State != StateCalm {
			t.Errorf("home: %s", e.Says)
		}
		if e := c.Explain("goes"); e.State != StateUnknown {
			t.Errorf("the teardown: %s", e.Says)
		}
	})
}

package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestExplainNamesTheSourcesWhoseNewsIsMissing, and does not say that all is well behind their back.
func TestExplainNamesTheSourcesWhoseNewsIsMissing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		pages := w.pages()
		var seen calls
		c, sites, _ := w.runningSites(&seen, Owns(pages))
		must(t, pages.Create(ctx, w.ownedPage("index", "home")))
		natstest.Eventually(t, "all is well", func() bool {
			e := c.Explain("home")
			return e.State == StateCalm && len(e.Missing) == 0 && strings.Contains(e.Says, "as it should be: nothing is due")
		})
		must(t, w.js.DeleteStream(ctx, "KV_pages"))
		went := time.Now()
		natstest.Eventually(t, "the bucket is missed", func() bool { return len(c.Explain("home").Missing) > 0 })
		if took := time.Since(went); took > 2*time.Second {
			t.Errorf("it was told after %v", took)
		}
		e := c.Explain("home")
		m := e.Missing[0]
		if len(e.Missing) != 1 || m.Source != "Owns Page (bucket pages)" || m.Since.Before(went) || m.Why == "" {
			t.Errorf("missing: %+v", e.Missing)
		}
		if e.State != StateCalm || strings.Contains(e.Says, "as it should be:") ||
			!strings.Contains(e.Says, "is not known. The news of Owns Page (bucket pages) is missing since ") {
			t.Errorf("it says: %s", e.Says)
		}
		must(t, sites.Patch(ctx, "home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
		natstest.Eventually(t, "so do other states", func() bool {
			e := c.Explain("home")
			return e.State == StateSuspended && strings.Contains(e.Says, "news of Owns Page (bucket pages) is missing")
		})
		w.pages()
		natstest.Eventually(t, "nothing is missing", func() bool { return len(c.Explain("home").Missing) == 0 })
	})
}

// TestExplainKnowsOfMappersThatFail, as does Degraded: whom their objects concern is not known before they succeed.
func TestExplainKnowsOfMappersThatFail(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		pages := w.pages()
		var seen calls
		var ill atomic.Bool
		c, _, _ := w.runningSites(&seen, Watches(pages, func(_ context.Context, p *page) ([]string, error) {
			if ill.Load() {
				return nil, errUnwell
			}
			return []string{"home"}, nil
		}), WithBackoff(time.Second, time.Second))
		ill.Store(true)
		for _, name := range []string{"one", "two"} {
			must(t, pages.Create(ctx, newPage(name, "")))
		}
		natstest.Eventually(t, "the mapper has failed for both", func() bool {
			return c.engine.Explainer().Mappings.Waiting() == 2
		})
		failed := time.Now()
		time.Sleep(10 * time.Second)
		e := c.Explain("home")
		if len(e.Missing) != 1 || e.Missing[0].Since.After(failed) ||
			!strings.Contains(e.Says, "the mapper has failed for 2 of its objects, and is called again: "+errUnwell.Error()) {
			t.Errorf("it says: %s %+v", e.Says, e.Missing)
		}
		const mapper = "mapper of Watches Page (bucket pages)"
		if err := c.Stats().Degraded[mapper]; err == nil || !strings.Contains(err.Error(), "for 2 of its objects") ||
			!errors.Is(err, errUnwell) {
			t.Errorf("%s: %v", mapper, err)
		}
		ill.Store(false)
		natstest.Eventually(t, "it has succeeded", func() bool { return len(c.Explain("home").Missing) == 0 })
		natstest.Eventually(t, "it works again", func() bool { return c.Stats().Degraded[mapper] == nil })
		if n := seen.with("home", OperationTertiary); n == 0 {
			t.Error("home has heard of neither")
		}
	})
}

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/api/meta"
)

// put writes a document as any client in any language may.
func (w *world) put(bucket, key, document string) {
	w.t.Helper()
	_, err := w.kv(bucket).Put(w.t.Context(), key, []byte(document))
	must(w.t, err)
}

// TestAnUndecodableDocumentNeitherStopsOthersNorCountsAsDeleted, whether it was good once or not.
func TestAnUndecodableDocumentNeitherStopsOthersNorCountsAsDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var seen calls
		c, sites, _ := w.runningSites(&seen, Owns(pages))
		ctx := t.Context()
		must(t, pages.Create(ctx, w.ownedPage("page", "home")))
		natstest.Eventually(t, "its secondary", func() bool { return seen.count("home") == 2 })
		w.put("sites", "home", `{"spec":{"title":`)
		w.put("sites", "never-good", `{"spec":[]}`)
		eventuallyReason(t, sites, "home", entity.ReasonInvalid)
		eventuallyReason(t, sites, "never-good", entity.ReasonInvalid)
		record, err := sites.Record(ctx, "home")
		must(t, err)
		condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled)
		if condition.Message == "" || !record.Anchor() {
			t.Errorf("condition %+v, an anchor: %v; want a message, and the anchor kept", condition, record.Anchor())
		}
		must(t, sites.Patch(ctx, "away", []byte(`{"spec":{"title":"two"}}`)))
		natstest.Eventually(t, "others go on", func() bool { return seen.count("away") == 2 })
		for _, key := range []string{"home", "never-good"} {
			c.Enqueue(key, OperationManual)
		}
		idle(t, c)
		if seen.count("home") != 2 || seen.count("never-good") != 0 {
			t.Errorf("invalid ones were reconciled: %v, %v", seen.of("home"), seen.of("never-good"))
		}
		if !exists(t, pages, "page") || c.Stats().TornDown != 0 || c.Stats().Invalid != 2 {
			t.Errorf("torn down: %d, invalid: %d; want 0, 2", c.Stats().TornDown, c.Stats().Invalid)
		}
		w.put("sites", "home", `{"spec":{"title":"mended"}}`)
		w.put("sites", "never-good", `{"spec":{"title":"mended"}}`)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		eventuallyReason(t, sites, "never-good", entity.ReasonSynced)
		if seen.with("home", OperationPut) < 2 || seen.with("never-good", OperationPut) < 1 {
			t.Errorf("reconciled for %v and %v once they were mended", seen.of("home"), seen.of("never-good"))
		}
	})
}

// TestAnInvalidDocumentStaysOneOverARestart: the cache then has no last good version, and the key exists all the same.
func TestAnInvalidDocumentStaysOneOverARestart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var seen, again calls
		_, _, r := w.runningSites(&seen, Owns(pages))
		must(t, pages.Create(t.Context(), w.ownedPage("page", "home")))
		r.halt()
		w.put("sites", "home", `{"spec":{"title":`)
		sites := w.away().sites()
		c, err := New("sites", sites, again.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		eventuallyReason(t, sites, "home", entity.ReasonInvalid)
		natstest.Eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > 5 && again.count("away") > 2 })
		if again.count("home") != 0 || !exists(t, pages, "page") {
			t.Errorf("reconciled for %v, its page is there: %v", again.of("home"), exists(t, pages, "page"))
		}
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "a delete is one, also of an invalid document", func() bool {
			return c.Stats().TornDown == 1 && !exists(t, pages, "page")
		})
	})
}

func TestAnUndecodableSecondaryStopsNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var seen calls
		_, _, _ = w.runningSites(&seen, Owns(pages))
		must(t, pages.Create(t.Context(), w.ownedPage("page", "home")))
		natstest.Eventually(t, "its owner", func() bool { return seen.with("home", OperationSecondary) == 1 })
		w.put("pages", "page", `{"spec":`)
		w.put("pages", "other", `{"spec":`)
		must(t, pages.Create(t.Context(), w.ownedPage("last", "away")))
		natstest.Eventually(t, "others go on", func() bool { return seen.with("away", OperationSecondary) == 1 })
		owned, err := pages.Lister().OwnedBy("Site", "home")
		must(t, err)
		if len(owned) != 1 || seen.with("home", OperationSecondary) != 1 {
			t.Errorf("%d owned, woken for %v; want the last good version still owned, and no event", len(owned),
				seen.of("home"))
		}
	})
}

// TestAMalformedKeyIsReportedAndDone: in a namespaced bucket a NATS key without a dot names nothing.
func TestAMalformedKeyIsReportedAndDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", func(cfg *entity.Config) { cfg.Namespaced = true })
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		w.run(c)
		// the second one is easily taken for what is meant by shop.home
		for i, key := range []string{"nodot", "shop/home"} {
			w.put("sites", key, `{"spec":{}}`)
			natstest.Eventually(t, fmt.Sprintf("%q is reported", key), func() bool {
				return c.Stats().Malformed == uint64(i+1)
			})
		}
		w.put("sites", "shop.home", `{"spec":{}}`)
		natstest.Eventually(t, "others go on", func() bool { return seen.count("shop/home") == 1 })
		must(t, w.kv("sites").Delete(t.Context(), "nodot"))
		w.put("sites", "shop.last", `{"spec":{}}`)
		natstest.Eventually(t, "and after its delete", func() bool { return seen.count("shop/last") == 1 })
		idle(t, c)
		if s := c.Stats(); s.Reconciles != 2 || s.Failing != 0 || s.Delayed != 0 {
			t.Errorf("%d reconciles, %d failing, %d delayed; want 2, 0, 0", s.Reconciles, s.Failing, s.Delayed)
		}
		must(t, sites.Delete(t.Context(), "shop/home"))
		natstest.Eventually(t, "its delete is one, although the malformed key is still there", func() bool {
			return c.Stats().TornDown == 1
		})
	})
}

// TestAKeyThatNoPrimaryCanHaveIsReportedAndDone, whoever asks for it: nothing can be read or written there, ever.
func TestAKeyThatNoPrimaryCanHaveIsReportedAndDone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		var seen calls
		malformed := []string{"", "shop/home", "_nagi.lease", "a space", "double..dot", ".leading",
			strings.Repeat("x", 5000)}
		c, _, _ := w.runningSites(&seen, Watches(pages, func(context.Context, *page) ([]string, error) {
			return malformed, nil
		}))
		must(t, pages.Create(t.Context(), named("page")))
		natstest.Eventually(t, "what a mapper returns", func() bool {
			return c.Stats().Malformed == uint64(len(malformed))
		})
		for _, key := range malformed {
			c.Enqueue(key, OperationManual)
		}
		natstest.Eventually(t, "what is enqueued", func() bool {
			return c.Stats().Malformed == uint64(2*len(malformed))
		})
		idle(t, c)
		if s := c.Stats(); s.Reconciles != 2 || s.Failing != 0 {
			t.Errorf("%d reconciles, %d failing; want the two of the sites, and none", s.Reconciles, s.Failing)
		}
		isHealthy(t, c)
	})
}

// TestAnInvalidDocumentInANamespaceIsNotReconciled: there the key is another one in NATS than in Go.
func TestAnInvalidDocumentInANamespaceIsNotReconciled(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", func(cfg *entity.Config) { cfg.Namespaced = true })
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil))
		must(t, err)
		w.run(c)
		w.put("sites", "shop.home", `{"spec":{}}`)
		eventuallyReason(t, sites, "shop/home", entity.ReasonSynced)
		w.put("sites", "shop.home", `{"spec":`)
		eventuallyReason(t, sites, "shop/home", entity.ReasonInvalid)
		c.Enqueue("shop/home", OperationManual)
		idle(t, c)
		if n := seen.count("shop/home"); n != 1 {
			t.Errorf("reconciled %d times, want once, while it was valid: %v", n, seen.of("shop/home"))
		}
		w.put("sites", "shop.home", `{"spec":{}}`)
		eventuallyReason(t, sites, "shop/home", entity.ReasonSynced)
	})
}

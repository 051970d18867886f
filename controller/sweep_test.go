package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
)

// started runs a controller over sites and pages once, so that the installation has an id.
func (w *world) installed() {
	w.t.Helper()
	sites := w.sites()
	c, err := New("sites", sites, (&calls{}).reconciler(nil))
	must(w.t, err)
	r := w.run(c)
	eventually(w.t, "it works", func() bool { return c.Stats().Leading })
	r.halt()
}

// TestTheSweepDeletesWhatHasNoOwner, and nothing else: one has an owner, one an owner that does not decode, one is
// another installation's.
func TestTheSweepDeletesWhatHasNoOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installed()
	sites, pages := w.sites(), w.pages()
	ctx := t.Context()
	must(t, sites.Create(ctx, newSite("home", "one")))
	_, err := w.kv("sites").Put(ctx, "broken", []byte(`{"spec":`))
	must(t, err)
	must(t, pages.Create(ctx, w.ownedPage("owned", "home")))
	must(t, pages.Create(ctx, w.ownedPage("of-broken", "broken")))
	must(t, pages.Create(ctx, w.ownedPage("orphan", "nobody")))
	must(t, pages.Create(ctx, foreignPage("foreign", "nobody")))

	var seen calls
	c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(30*time.Millisecond))
	must(t, err)
	w.run(c)
	eventually(t, "the orphan is swept", gone(t, pages, "orphan"))
	eventually(t, "the cache that is swept knows it", func() bool {
		_, there, err := pages.Informer().GetStore().GetByKey("orphan") // the lister hides own deletes sooner
		return err == nil && !there
	})
	sweeps := c.Stats().Sweeps
	eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
	for _, key := range []string{"owned", "of-broken", "foreign"} {
		if !exists(t, pages, key) {
			t.Errorf("page %q was swept", key)
		}
	}
	if seen.with("nobody", OperationDelete) == 0 {
		t.Error("the reconciler was not told Delete for the missing owner")
	}
	if c.Stats().Foreign == 0 {
		t.Error("the other installation's page is not reported")
	}
	if c.Stats().Orphaned != 0 {
		t.Errorf("%d orphaned in the end", c.Stats().Orphaned)
	}
}

func TestTheSweepsDryRunOnlyReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installed()
	sites, pages := w.sites(), w.pages()
	must(t, pages.Create(t.Context(), w.ownedPage("orphan", "nobody")))
	var seen calls
	c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(20*time.Millisecond),
		WithSweepDryRun())
	must(t, err)
	w.run(c)
	eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > 5 })
	if c.Stats().Orphaned != 1 || !exists(t, pages, "orphan") || seen.count("nobody") != 0 {
		t.Errorf("orphaned %d, reconciled %v; want one reported and nothing done", c.Stats().Orphaned,
			seen.of("nobody"))
	}
}

// TestTheSweepAsksTheLeader: the cache lacks an owner that exists and has no anchor.
func TestTheSweepAsksTheLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installed()
	pages := w.pages()
	ctx := t.Context()
	must(t, w.sites().Create(ctx, newSite("home", "one")))
	must(t, pages.Create(ctx, w.ownedPage("owned", "home")))
	var seen calls
	sites := &blind{Client: w.sites(), hidden: "home"}
	c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(20*time.Millisecond))
	must(t, err)
	w.run(c)
	eventually(t, "the leader was asked", func() bool { return sites.confirmed.Load() > 2 })
	eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > 5 })
	if !exists(t, pages, "owned") || seen.with("home", OperationDelete) > 0 {
		t.Errorf("swept although the leader has its owner: %v", seen.of("home"))
	}
}

// TestTheSweepOfAPartOfABucketLeavesWhatWasOrphaned: the cache of a filtered bucket has no reserved keys.
func TestTheSweepOfAPartOfABucketLeavesWhatWasOrphaned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	filtered := func(cfg *entity.Config) { cfg.Filter = "shop.>" }
	sites, pages := w.client("Site", "sites", filtered), w.pages()
	ctx := t.Context()
	c, err := New("sites", sites, onePage(sites, pages), Owns(pages), WithResyncInterval(20*time.Millisecond))
	must(t, err)
	w.run(c)
	must(t, sites.Create(ctx, orphaning("shop.home", 0, "one")))
	eventuallyReason(t, sites, "shop.home", entity.ReasonSynced)
	must(t, sites.Delete(ctx, "shop.home"))
	eventually(t, "it is torn down", noRecord(t, sites, "shop.home"))
	sweeps := c.Stats().Sweeps
	eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
	if !exists(t, pages, "shop.home") || c.Stats().Orphaned != 0 {
		t.Errorf("orphaned %d; the page exists: %v", c.Stats().Orphaned, exists(t, pages, "shop.home"))
	}
}

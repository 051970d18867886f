package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// were makes the sites of these keys and deletes them again, as somebody does while no controller runs: the markers of
// the deletes stay.
func were(t *testing.T, sites *entity.Client[*site], keys ...string) {
	t.Helper()
	for _, key := range keys {
		must(t, sites.Create(t.Context(), newSite(key, "")))
		must(t, sites.Delete(t.Context(), key))
	}
}

// started runs a controller over sites and pages once, so that the installation has an id.
func (w *world) installed() {
	w.t.Helper()
	sites := w.sites()
	c, err := New("sites", sites, (&calls{}).reconciler(nil))
	must(w.t, err)
	r := w.run(c)
	natstest.Eventually(w.t, "it works", func() bool { return c.Stats().Leading })
	r.halt()
}

// TestTheSweepDeletesWhatHasNoOwner, and nothing else: one has an owner, one an owner that does not decode, one is
// another installation's.
func TestTheSweepDeletesWhatHasNoOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		must(t, sites.Create(ctx, newSite("home", "one")))
		_, err := w.kv("sites").Put(ctx, "broken", []byte(`{"spec":`))
		must(t, err)
		must(t, pages.Create(ctx, w.ownedPage("owned", "home")))
		must(t, pages.Create(ctx, w.ownedPage("of-broken", "broken")))
		were(t, sites, "nobody")
		must(t, pages.Create(ctx, w.ownedPage("orphan", "nobody")))
		must(t, pages.Create(ctx, foreignPage("foreign", "nobody")))

		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "the orphan is swept", gone(t, pages, "orphan"))
		natstest.Eventually(t, "the cache that is swept knows it", func() bool {
			_, there, err := pages.Informer().GetStore().GetByKey("orphan") // the lister hides own deletes sooner
			return err == nil && !there
		})
		sweeps := c.Stats().Sweeps
		natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
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
	})
}

func TestTheSweepsDryRunOnlyReports(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		sites, pages := w.sites(), w.pages()
		were(t, sites, "nobody")
		must(t, pages.Create(t.Context(), w.ownedPage("orphan", "nobody")))
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second),
			WithSweepDryRun())
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > 5 })
		if c.Stats().Orphaned != 1 || !exists(t, pages, "orphan") || seen.count("nobody") != 0 {
			t.Errorf("orphaned %d, reconciled %v; want one reported and nothing done", c.Stats().Orphaned,
				seen.of("nobody"))
		}
	})
}

// namedTwice are the objects that lines of a message name as the first more than once.
func (l *logLines) namedTwice(message string) (twice []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	named := map[string]bool{}
	for _, line := range l.lines {
		if text, ok := line["msg"].(string); !ok || !strings.HasPrefix(text, message) {
			continue
		}
		for _, object := range line["first"].([]any) {
			if named[object.(string)] {
				twice = append(twice, object.(string))
			}
			named[object.(string)] = true
		}
	}
	return twice
}

// TestAnOwnerThatNeverWasIsOnlyReported, once, whatever it is called: nobody knows who made its pages.
func TestAnOwnerThatNeverWasIsOnlyReported(t *testing.T) {
	for name, owner := range map[string]string{
		"never seen": "ghost", "no key": "gh ost\n\x1b[31m", "another kind of key": "ns/ghost", "reserved": "_nagi.lease",
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
				must(t, err)
				var log logLines
				w.run(logging{c, log.logger()})
				natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
				for i := range many { // more than half of all that there is
					must(t, pages.Create(t.Context(), w.ownedPage(siteName(i), owner)))
				}
				natstest.Eventually(t, "all are reported", func() bool { return c.Stats().NeverWas == many })
				sweeps := c.Stats().Sweeps
				natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+3 })
				s := c.Stats()
				if s.Orphaned != many || s.BrakeEngaged != 0 || s.Brake.Swept != 0 || s.Reconciles != 0 || s.Malformed != 0 {
					t.Errorf("%d orphaned, the brake engaged %d times, %d reconciles, %d malformed: %v",
						s.Orphaned, s.BrakeEngaged, s.Reconciles, s.Malformed, seen.of(owner))
				}
				if n := count(t, pages); n != many {
					t.Errorf("%d pages are left of %d", n, many)
				}
				if s.Foreign != 0 {
					t.Errorf("%d are taken for another installation's", s.Foreign)
				}
				if twice := log.namedTwice("Objects name an owner that, as far as anybody can tell"); len(twice) > 0 {
					t.Errorf("the log names again: %v", twice)
				}
			})
		})
	}
}

// TestWhatNamesAnOwnerThatNeverWasStaysWhenItIsAskedFor by hand: the reconciler is told Delete, and the log what stays.
func TestWhatNamesAnOwnerThatNeverWasStaysWhenItIsAskedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages))
		must(t, err)
		var log logLines
		w.run(logging{c, log.logger()})
		natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
		for i := range many {
			must(t, pages.Create(t.Context(), w.ownedPage(siteName(i), "ghost")))
		}
		c.Enqueue("ghost", OperationManual)
		natstest.Eventually(t, "the key is done", func() bool {
			return seen.with("ghost", OperationDelete) == 1 && c.Stats().TornDown == 1
		})
		if n := count(t, pages); n != many || c.Stats().Cascaded != 0 {
			t.Errorf("%d pages are left of %d", n, many)
		}
		stays := "Objects name this owner, which has no document, no record and, as far as the leader knows, no marker of a " +
			"delete: it never was, so they stay. Delete them by hand if they are not needed"
		if n := len(log.with(stays)); n != 1 {
			t.Errorf("the log says %d times what stays", n)
		}

		// One whose marker the leader has was, and what it owned goes.
		were(t, sites, "ghost")
		c.Enqueue("ghost", OperationManual)
		natstest.Eventually(t, "all are gone", func() bool { return count(t, pages) == 0 })
	})
}

// TestTheSweepAsksTheLeader: the cache lacks an owner that exists and has no anchor.
func TestTheSweepAsksTheLeader(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		pages := w.pages()
		ctx := t.Context()
		must(t, w.sites().Create(ctx, newSite("home", "one")))
		must(t, pages.Create(ctx, w.ownedPage("owned", "home")))
		var seen calls
		sites := &blind{Client: w.sites(), hidden: "home"}
		c, err := New("sites", sites, seen.reconciler(nil), Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "the leader was asked", func() bool { return sites.confirmed.Load() > 2 })
		natstest.Eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > 5 })
		if !exists(t, pages, "owned") || seen.with("home", OperationDelete) > 0 {
			t.Errorf("swept although the leader has its owner: %v", seen.of("home"))
		}
	})
}

// TestTheSweepOfAPartOfABucketLeavesWhatWasOrphaned: the cache of a filtered bucket has no reserved keys.
func TestTheSweepOfAPartOfABucketLeavesWhatWasOrphaned(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		filtered := func(cfg *entity.Config) { cfg.Filter = "shop.>" }
		sites, pages := w.client("Site", "sites", filtered), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, onePage(sites, pages), Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, orphaning("shop.home", 0, "one")))
		eventuallyReason(t, sites, "shop.home", entity.ReasonSynced)
		must(t, sites.Delete(ctx, "shop.home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "shop.home"))
		sweeps := c.Stats().Sweeps
		natstest.Eventually(t, "some sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
		if !exists(t, pages, "shop.home") || c.Stats().Orphaned != 0 {
			t.Errorf("orphaned %d; the page exists: %v", c.Stats().Orphaned, exists(t, pages, "shop.home"))
		}
	})
}

// TestManyOwnersThatNeverWereHideNoGarbage: the leader is asked about so many owners in a sweep and no more, and
// somebody has named more than that. What is left of an owner that is gone is found all the same, where they are and
// elsewhere.
func TestManyOwnersThatNeverWereHideNoGarbage(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		sites, pages, drafts := w.sites(), w.pages(), w.client("Draft", "drafts")
		were(t, sites, "gone", "gone-too")
		const ghosts = 2500
		document, err := json.Marshal(w.ownedPage("ghost-N", "ghost-N"))
		must(t, err)
		for i := range ghosts {
			name := fmt.Sprintf("ghost-%d", i)
			_, err := w.js.PublishAsync("$KV.pages."+name, bytes.ReplaceAll(document, []byte("ghost-N"), []byte(name)),
				jetstream.WithStallWait(time.Minute))
			must(t, err)
		}
		<-w.js.PublishAsyncComplete()
		must(t, pages.Create(t.Context(), w.ownedPage("left", "gone")))
		must(t, drafts.Create(t.Context(), w.ownedPage("left", "gone-too")))
		asking := &blind{Client: sites} // hides nothing; it counts what the leader is asked
		c, err := New("sites", asking, noReconciler, Owns(pages), Owns(drafts), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
		sweeps := c.Stats().Sweeps
		// A sweep of so many owners takes some seconds where the machine is busy: what bounds this is how many there
		// are.
		swept := false
		eventuallyGrows(t, "what is left is swept: questions to the leader", math.MaxInt, func() int {
			took := c.Stats().Sweeps - sweeps
			if swept = !exists(t, pages, "left") && !exists(t, drafts, "left"); swept || took > 6 {
				return math.MaxInt
			}
			return int(asking.confirmed.Load())
		})
		if !swept {
			t.Errorf("after %d sweeps something is left whose owner is gone", c.Stats().Sweeps-sweeps)
		}
		if n := count(t, pages); n != ghosts {
			t.Errorf("%d of %d pages are left, whose owners never were", n, ghosts)
		}
	})
}

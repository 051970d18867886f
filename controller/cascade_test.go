package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestTheCascadeTakesOnlyWhatIsOurs has beside the site's pages one of another installation that names the same owner,
// one of another kind of owner, one of another site, and one without an owner.
func TestTheCascadeTakesOnlyWhatIsOurs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 2)))
		must(t, sites.Create(ctx, siteWithPages("other", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		eventuallyReason(t, sites, "other", entity.ReasonSynced)
		instance := c.engine.InstanceID()

		must(t, pages.Create(ctx, foreignPage("foreign", "home")))
		nameless := newSite("nameless", "")
		nameless.Annotations = map[string]string{entity.OwnerKindAnnotation: "Site", entity.OwnerKeyAnnotation: "home"}
		must(t, pages.Create(ctx, nameless))
		elsewhere := newSite("otherkind", "")
		entity.SetOwner(elsewhere, "Shop", "home", instance)
		must(t, pages.Create(ctx, elsewhere))
		must(t, pages.Create(ctx, newSite("free", "")))

		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
		for _, key := range []string{"foreign", "nameless", "otherkind", "free", "other-0"} {
			if !exists(t, pages, key) {
				t.Errorf("page %q was deleted", key)
			}
		}
		for _, key := range []string{"home-0", "home-1"} {
			if exists(t, pages, key) {
				t.Errorf("page %q is left", key)
			}
		}
		if stats := c.Stats(); stats.Foreign == 0 || stats.Cascaded != 2 {
			t.Errorf("foreign %d, want some; cascaded %d, want 2", stats.Foreign, stats.Cascaded)
		}
	})
}

// TestTheCascadeDeletesWhatItSaw changes a page just before its delete: the precondition refuses it, and the cascade
// looks again.
func TestTheCascadeDeletesWhatItSaw(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.away().pages()
		sites, pages := w.sites(), &hooked{Client: w.pages()}
		ctx := t.Context()
		var refused atomic.Int64
		var once atomic.Bool
		pages.onDelete = func(key string, remove func() error) error {
			if once.CompareAndSwap(false, true) {
				must(t, other.Patch(ctx, key, []byte(`{"spec":{"title":"changed"}}`)))
			}
			err := remove()
			if apierrors.IsConflict(err) {
				refused.Add(1)
			}
			return err
		}
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
		if refused.Load() == 0 {
			t.Error("the delete of a page that had changed was not refused")
		}
		if exists(t, pages.Client, "home-0") {
			t.Error("the page is left")
		}
	})
}

// orphaning is a site that asks to leave what it owned.
func orphaning(name string, pages int, title string) *site {
	s := siteWithPages(name, pages)
	s.Spec.Title = title
	s.Annotations = map[string]string{DeletionPolicyAnnotation: DeletionPolicyOrphan}
	return s
}

// TestSweepsDoNotForgetWhatATeardownIsAboutToLeave: between the step that notes it and the end of the teardown may
// lie any number of sweeps.
func TestSweepsDoNotForgetWhatATeardownIsAboutToLeave(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		work := pagesOf(sites, pages)
		var ready atomic.Bool
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && !ready.Load() {
				return Result{}, errors.New("not yet")
			}
			return work.Reconcile(ctx, req)
		}), Owns(pages), WithResyncInterval(time.Second), WithBackoff(time.Millisecond, 10*time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, orphaning("home", 2, "small")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "its teardown has begun", func() bool { return c.Stats().Failures > 0 })
		_, err = sites.Records().PutReserved(ctx, record.LeftKey("home"), []byte("home"), 0)
		must(t, err)
		sweeps := c.Stats().Sweeps
		natstest.Eventually(t, "sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
		_, err = w.kv("sites-status").Get(ctx, record.LeftKey("home"))
		must(t, err)
		ready.Store(true)
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
		sweeps = c.Stats().Sweeps
		natstest.Eventually(t, "sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
		if n := count(t, pages); n != 2 {
			t.Errorf("%d of 2 pages are left", n)
		}
	})
}

// TestTheOrphanPolicyLeavesWhatWasOwned, also where the document was too large for the record, also when the delete was
// missed; and the sweep does not take it for garbage afterwards, not even in another process.
func TestTheOrphanPolicyLeavesWhatWasOwned(t *testing.T) {
	for _, size := range []string{"small", "beyond the limit"} {
		for _, when := range []string{"while it ran", "while it was down"} {
			t.Run(size+", "+when, func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					title := "small"
					if size != title {
						title = strings.Repeat("x", entity.DefaultLastDocumentLimit)
					}
					ctx := t.Context()
					start := func(w *world) (*entity.Client[*site], *entity.Client[*page], *Controller[*site], *running) {
						sites, pages := w.sites(), w.pages()
						work := pagesOf(sites, pages)
						c, err := New("sites", sites, work, Owns(pages), WithResyncInterval(time.Second))
						must(t, err)
						return sites, pages, c, w.run(c)
					}
					sites, _, c, r := start(w)
					must(t, sites.Create(ctx, orphaning("home", 2, title)))
					eventuallyReason(t, sites, "home", entity.ReasonSynced)
					if when == "while it was down" {
						r.halt()
						must(t, sites.Delete(ctx, "home"))
						sites, _, c, r = start(w.away())
					} else {
						must(t, sites.Delete(ctx, "home"))
					}
					natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
					sweeps := c.Stats().Sweeps
					natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps > sweeps+5 })
					r.halt()
					_, pages, c, _ := start(w.away())
					natstest.Eventually(t, "sweeps after a restart", func() bool { return c.Stats().Sweeps > 5 })
					for _, key := range []string{"home-0", "home-1"} {
						if !exists(t, pages, key) {
							t.Errorf("page %q was deleted", key)
						}
					}
					if c.Stats().Orphaned != 0 {
						t.Errorf("the sweep takes %d pages for garbage", c.Stats().Orphaned)
					}
					// A document of that name adopts them, and they go with it.
					must(t, sites.Create(ctx, siteWithPages("home", 2)))
					eventuallyReason(t, sites, "home", entity.ReasonSynced)
					must(t, sites.Delete(ctx, "home"))
					natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
					natstest.Eventually(t, "with its pages", func() bool { return count(t, pages) == 0 })
					natstest.Eventually(t, "nothing remembers them", func() bool {
						_, err := w.kv("sites-status").Get(ctx, record.LeftKey("home"))
						return err != nil
					})
				})
			})
		}
	}
}

// TestNamespacedKeysAreTornDown: the owner's key has a slash in Go, and a dot in NATS.
func TestNamespacedKeysAreTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		namespaced := func(cfg *entity.Config) { cfg.Namespaced = true }
		sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
		ctx := t.Context()
		c, err := New("sites", sites, onePage(sites, pages), Owns(pages))
		must(t, err)
		w.run(c)
		for _, namespace := range []string{"a", "b"} {
			s := newSite("home", "")
			s.Namespace = namespace
			must(t, sites.Create(ctx, s))
			eventuallyReason(t, sites, namespace+"/home", entity.ReasonSynced)
		}
		must(t, sites.Delete(ctx, "a/home"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "a/home"))
		if exists(t, pages, "a/home") || !exists(t, pages, "b/home") {
			t.Error("want the page of a gone, and that of b there")
		}
	})
}

// TestTheCascadeEndsWhenTheDocumentIsBack puts it again when the first of many pages has gone: the others stay.
func TestTheCascadeEndsWhenTheDocumentIsBack(t *testing.T) {
	const owned = 20
	t.Run("and the cache shows it", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			other := w.away().sites()
			sites, pages := w.sites(), &hooked{Client: w.pages()}
			ctx := t.Context()
			var c *Controller[*site]
			var deleted atomic.Int64
			pages.onDelete = func(_ string, remove func() error) error {
				err := remove()
				if deleted.Add(1) == 1 {
					must(t, other.Create(ctx, siteWithPages("home", owned)))
					natstest.Eventually(t, "the cache shows it", func() bool {
						return sites.Informer().Exists("home")
					})
				}
				return err
			}
			c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
			must(t, err)
			w.run(c)
			must(t, sites.Create(ctx, siteWithPages("home", owned)))
			eventuallyReason(t, sites, "home", entity.ReasonSynced)
			must(t, sites.Delete(ctx, "home"))
			natstest.Eventually(t, "the first page is deleted", func() bool { return deleted.Load() > 0 })
			natstest.Eventually(t, "all pages are there again", func() bool { return count(t, pages.Client) == owned })
			if n := deleted.Load(); n != 1 {
				t.Errorf("%d pages were deleted, want 1", n)
			}
			if noRecord(t, sites, "home")() {
				t.Error("the anchor was removed")
			}
		})
	})
	t.Run("and only the leader knows", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			sites, pages := w.sites(), w.pages()
			ctx := t.Context()
			c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
			must(t, err)
			r := w.run(c)
			must(t, sites.Create(ctx, siteWithPages("home", owned)))
			eventuallyReason(t, sites, "home", entity.ReasonSynced)
			r.halt()
			must(t, sites.Delete(ctx, "home"))

			after := w.away()
			unaware, slow := &blind{Client: after.sites(), hidden: "home"}, &hooked{Client: after.pages()}
			var deleted atomic.Int64
			slow.onDelete = func(_ string, remove func() error) error {
				if deleted.Add(1) == 1 {
					must(t, sites.Create(ctx, siteWithPages("home", owned)))
					time.Sleep(deletes.LeaderTrusted + time.Millisecond) // the leader's answer is old
				}
				return remove()
			}
			c, err = New("sites", unaware, (&calls{}).reconciler(nil), Owns(slow), WithResyncInterval(0))
			must(t, err)
			w.run(c)
			natstest.Eventually(t, "the leader says that it is back", func() bool {
				return deleted.Load() > 0 && unaware.confirmed.Load() > 3
			})
			if n := deleted.Load(); n != 1 || noRecord(t, sites, "home")() {
				t.Errorf("%d pages were deleted, want 1; the anchor is gone: %v", n, noRecord(t, sites, "home")())
			}
		})
	})
}

// TestADeleteIsDecidedAnewWhileItsBucketIsAway: it is not sent again and again for longer, for the document may be back
// when the bucket is.
func TestADeleteIsDecidedAnewWhileItsBucketIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), &hooked{Client: w.pages()}
		ctx := t.Context()
		var longest, ended atomic.Int64
		pages.onDelete = func(_ string, remove func() error) error {
			began := time.Now()
			err := remove()
			longest.Store(max(longest.Load(), int64(time.Since(began))))
			ended.Add(1)
			return err
		}
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, w.js.DeleteKeyValue(ctx, pages.Config().Bucket))
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "a second delete has failed", func() bool { return ended.Load() == 2 })
		if got := time.Duration(longest.Load()); got != deletes.SentFor {
			t.Errorf("one delete was sent for %v, want %v", got, deletes.SentFor)
		}
	})
}

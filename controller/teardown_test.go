package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pagesOf makes each site own as many pages as it says.
func pagesOf(sites, pages entity.IEntityClient[*site]) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil {
			return Result{}, ignoreNotFound(err)
		}
		for i := range s.Spec.Pages {
			p := &page{ObjectMeta: metav1.ObjectMeta{Name: pageName(s.Name, i)}}
			if _, err := CreateOrUpdate(ctx, pages, p, func(p *page) error {
				p.Spec.Title = s.Spec.Title
				return nil
			}); err != nil {
				return Result{}, err
			}
		}
		return Result{}, nil
	}
}

func pageName(site string, i int) string { return fmt.Sprintf("%s-%d", site, i) }

func siteWithPages(name string, pages int) *site {
	s := newSite(name, "one")
	s.Spec.Pages = pages
	return s
}

// TestADeleteMissedWhileDownIsTornDown purges even the tombstone: nothing but the anchor tells of the delete.
func TestADeleteMissedWhileDownIsTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 2)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		r.halt()

		must(t, sites.Delete(ctx, "home"))
		w.emptied("sites")

		after := w.away()
		sites, pages = after.sites(), after.pages()
		var seen calls
		var c2 *Controller[*site]
		lastKnown := make(chan *site, 10)
		c2, err = New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			last, err := c2.LastKnown(ctx, req.Key)
			if err == nil {
				lastKnown <- last
			}
			return Result{}, err
		}), Owns(pages))
		must(t, err)
		w.run(c2)
		natstest.Eventually(t, "the anchor is removed", noRecord(t, sites, "home"))
		if n := count(t, pages); n != 0 {
			t.Errorf("%d pages are left", n)
		}
		if last := <-lastKnown; last.Name != "home" || last.Spec.Title != "one" || last.Spec.Pages != 2 {
			t.Errorf("LastKnown: %+v", last)
		}
		if n := seen.with("home", OperationDelete); n == 0 || n != seen.count("home") {
			t.Errorf("reconciled with %v, want Delete only", seen.of("home"))
		}
		if _, err := c2.LastKnown(ctx, "home"); !apierrors.IsNotFound(err) {
			t.Errorf("LastKnown after the teardown: %v, want IsNotFound", err)
		}
	})
}

// TestADocumentPutAgainDuringItsTeardownKeepsWhatItOwns puts it at each moment of the teardown in which nothing was
// deleted yet: nothing is, the anchor stays, and the key is reconciled as Put. If the reconciler was called for the
// delete, that is reported.
func TestADocumentPutAgainDuringItsTeardownKeepsWhatItOwns(t *testing.T) {
	for _, moment := range []string{"before the reconciler", "in the reconciler", "at its end"} {
		t.Run(moment, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				other := w.away().sites() // somebody else, whose writes the controller learns of by its watch only
				sites, pages := w.sites(), w.pages()
				ctx := t.Context()
				again := sync.OnceFunc(func() { must(t, other.Create(ctx, siteWithPages("home", 1))) })
				var seen calls
				var told results
				work := pagesOf(sites, pages)
				busy, release := make(chan struct{}), make(chan struct{})
				c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
					if req.Key == "busy" {
						close(busy)
						<-release
						return Result{}, nil
					}
					if !req.Operations.Has(OperationDelete) {
						return work(ctx, req)
					}
					if moment == "in the reconciler" {
						again()
					}
					_, err := work(ctx, req)
					if moment == "at its end" {
						again()
					}
					return Result{}, err
				}), Owns(pages), WithOnResult(told.add))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, siteWithPages("home", 1)))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				before, err := pages.Get(ctx, "home-0")
				must(t, err)
				record, err := sites.Record(ctx, "home")
				must(t, err)
				anchor := record.Revision

				must(t, sites.Create(ctx, newSite("busy", "")))
				<-busy // the only worker
				must(t, sites.Delete(ctx, "home"))
				natstest.Eventually(t, "the delete is queued", func() bool { return c.Stats().Ready[0] > 0 })
				if moment == "before the reconciler" {
					again()
				}
				close(release)
				natstest.Eventually(t, "the new document is reconciled as Put", func() bool {
					now, err := sites.Record(ctx, "home")
					must(t, err) // never without one
					doc, err := sites.Get(ctx, "home")
					return err == nil && now.Revision > anchor && now.ObservedRevision == uint64(doc.Generation) &&
						seen.with("home", OperationPut) > 1
				})
				after, err := pages.Get(ctx, "home-0")
				must(t, err)
				// It may be written once, against a delete that is yet to arrive. To be made anew would be two writes.
				if was, is := revisionOf(before), revisionOf(after); is > was+1 {
					t.Errorf("the page was made anew: %d, then %d", was, is)
				}
				if stats := c.Stats(); stats.TornDown+stats.Cascaded > 0 {
					t.Errorf("torn down %d, cascaded %d, want nothing", stats.TornDown, stats.Cascaded)
				}
				attempts := told.with(OperationDelete)
				if len(attempts) != seen.with("home", OperationDelete) {
					t.Errorf("told of %d attempts, called for %v", len(attempts), seen.of("home"))
				}
				for _, r := range attempts {
					if r.Err != nil || r.Attempt != 1 {
						t.Errorf("told %+v, want a success", r)
					}
					if moment == "at its end" && r.NextDue.IsZero() { // else the watch may have told by then
						t.Errorf("told %+v, want that it is looked at again", r)
					}
				}
			})
		})
	}
}

// TestADocumentPutAgainDuringTheCascadeGetsItsOwn puts it when the deletes have begun: what the old one owned may go,
// and the new one's are there in the end, under an anchor.
func TestADocumentPutAgainDuringTheCascadeGetsItsOwn(t *testing.T) {
	for _, moment := range []string{"after the leader was asked", "between two deletes", "after the last delete"} {
		t.Run(moment, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				other := w.away().sites()
				sites, pages := &hooked{Client: w.sites()}, &hooked{Client: w.pages()}
				ctx := t.Context()
				again := sync.OnceFunc(func() {
					s := siteWithPages("home", 2)
					s.Spec.Title = "new"
					must(t, other.Create(ctx, s))
				})
				c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
				must(t, err)
				w.run(c)
				must(t, sites.Create(ctx, siteWithPages("home", 2)))
				eventuallyReason(t, sites.Client, "home", entity.ReasonSynced)
				deletes := 0
				sites.hook(func() {
					sites.afterConfirm = func(_ string, found entity.Presence) {
						if moment == "after the leader was asked" && !found.Exists {
							again()
						}
					}
				})
				pages.hook(func() {
					pages.onDelete = func(_ string, remove func() error) error {
						err := remove()
						deletes++
						if moment == "between two deletes" && deletes == 1 || moment == "after the last delete" &&
							deletes == 2 {
							again()
						}
						return err
					}
				})
				must(t, other.Delete(ctx, "home"))
				natstest.Eventually(t, "the new document is reconciled", func() bool {
					doc, err := sites.Get(ctx, "home")
					if err != nil {
						return false
					}
					record, err := sites.Record(ctx, "home")
					return err == nil && record.Anchor() && record.ObservedRevision == uint64(doc.Generation)
				})
				natstest.Eventually(t, "it has its own pages", func() bool {
					for i := range 2 {
						p, err := pages.Get(ctx, fmt.Sprintf("home-%d", i))
						if err != nil || p.Spec.Title != "new" {
							return false
						}
					}
					return true
				})
			})
		})
	}
}

// TestAFailingTeardownKeepsTheAnchor until the reconciler succeeds, with the operation given back.
func TestAFailingTeardownKeepsTheAnchor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		var seen calls
		var healed atomic.Bool
		work := pagesOf(sites, pages)
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && !healed.Load() {
				switch seen.with("home", OperationDelete) % 3 {
				case 0:
					return Result{RequeueAfter: time.Millisecond}, nil // not finished yet
				case 1:
					panic("tick tack")
				}
				return Result{}, errors.New("not now")
			}
			return work(ctx, req)
		}), Owns(pages), WithBackoff(time.Millisecond, 10*time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "several attempts", func() bool { return seen.with("home", OperationDelete) > 6 })
		if !exists(t, pages, "home-0") || noRecord(t, sites, "home")() {
			t.Error("something was deleted although the teardown failed")
		}
		if last, err := c.LastKnown(ctx, "home"); err != nil || last.Spec.Pages != 1 {
			t.Errorf("LastKnown: %+v, %v", last, err)
		}
		healed.Store(true)
		natstest.Eventually(t, "it is finished", noRecord(t, sites, "home"))
		if count(t, pages) != 0 {
			t.Error("the page is left")
		}
	})
}

// TestABehindCacheTearsNothingDown hides an existing document from the controller's cache at its start.
func TestABehindCacheTearsNothingDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		c, err := New("sites", sites, pagesOf(sites, pages), Owns(pages))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(ctx, siteWithPages("home", 1)))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		r.halt()

		var seen calls
		behind := &blind{Client: w.away().sites(), hidden: "home"}
		c2, err := New("sites", behind, seen.reconciler(pagesOf(behind, pages)), Owns(pages),
			WithResyncInterval(time.Second))
		must(t, err)
		w.run(c2)
		natstest.Eventually(t, "the owed delete was looked at, and refused", func() bool {
			return behind.confirmed.Load() > 2
		})
		natstest.Eventually(t, "some sweeps", func() bool { return c2.Stats().Sweeps > 5 })
		if !exists(t, pages, "home-0") || noRecord(t, sites, "home")() || seen.with("home", OperationDelete) > 0 {
			t.Errorf("torn down although the leader has the document: %v", seen.of("home"))
		}
	})
}

func revisionOf(obj metav1.Object) uint64 {
	revision, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	return revision
}

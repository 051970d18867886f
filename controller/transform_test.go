package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// untitled is a transform that keeps no titles and no metadata.
func untitled(obj any) (any, error) { return &site{Spec: siteSpec{Pages: obj.(*site).Spec.Pages}}, nil }

// transforming makes a client whose informer has a transform.
func (w *world) transforming(kind, bucket string, transform cache.TransformFunc) *entity.Client[*site] {
	w.t.Helper()
	client := w.client(kind, bucket)
	must(w.t, client.Informer().SetTransform(transform))
	return client
}

// lastDocument is what the record of a key has of the document.
func lastDocument(t *testing.T, sites *entity.Client[*site], key string) string {
	t.Helper()
	rec, err := sites.Record(t.Context(), key)
	must(t, err)
	return string(rec.LastDocument)
}

// TestATransformTakesNothingFromTheRecord, which a teardown and a restore may need: neither before the first reconcile,
// nor with the status, nor after a restart; and LastKnown has it, too.
func TestATransformTakesNothingFromTheRecord(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.transforming("Site", "sites", untitled)
		must(t, sites.Create(t.Context(), newSite("before", "t1")))
		deleted := make(chan *site, 2)
		reconciler := func(sites *entity.Client[*site], c **Controller[*site]) ReconcilerFunc {
			return func(ctx context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					last, err := (*c).LastKnown(ctx, req.Key)
					if err == nil {
						deleted <- last
					}
					return Result{}, err
				}
				s, err := sites.Lister().Get(req.Key)
				if err != nil {
					return Result{}, err
				}
				if s.Spec.Title != "" {
					return Result{}, errors.New("the lister shows a title")
				}
				s.Status.Ready, s.Status.Note = true, s.Name
				return Result{}, SetStatus(ctx, s)
			}
		}
		var c *Controller[*site]
		c, err := New("sites", sites, reconciler(sites, &c))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(t.Context(), newSite("live", "t2")))
		ready := func(sites *entity.Client[*site], key string) {
			t.Helper()
			natstest.Eventually(t, key+" is reconciled", func() bool {
				s, err := sites.Get(t.Context(), key)
				rec, recErr := sites.Record(t.Context(), key)
				return err == nil && recErr == nil && s.Status.Ready && rec.ObservedRevision == uint64(s.Generation)
			})
		}
		for key, title := range map[string]string{"before": "t1", "live": "t2"} {
			ready(sites, key)
			if got := lastDocument(t, sites, key); !strings.Contains(got, `"title":"`+title+`"`) {
				t.Errorf("the record of %s has %s", key, got)
			}
		}
		gone := func(sites *entity.Client[*site], c *Controller[*site], key, title string) {
			t.Helper()
			s, err := sites.Get(t.Context(), key)
			must(t, err)
			must(t, sites.Delete(t.Context(), key))
			last := <-deleted
			if last.Name != key || last.Spec.Title != title || last.ResourceVersion != s.ResourceVersion {
				t.Errorf("LastKnown of %s: %+v, want the title %s at %s", key, last, title, s.ResourceVersion)
			}
			natstest.Eventually(t, key+" is torn down", func() bool {
				_, err := sites.Record(t.Context(), key)
				return err != nil
			})
			if held := c.Stats().Degraded["brake"]; held != nil {
				t.Errorf("the delete of %s counts as inferred: %v", key, held)
			}
		}
		gone(sites, c, "live", "t2")
		r.halt()

		again := w.away().transforming("Site", "sites", untitled)
		var c2 *Controller[*site]
		c2, err = New("sites", again, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			result, err := reconciler(again, &c2)(ctx, req)
			if s, getErr := again.Lister().Get(req.Key); getErr == nil && err == nil {
				s.Status.Note = "again" // another status at a revision that has its anchor
				err = SetStatus(ctx, s)
			}
			return result, err
		}))
		must(t, err)
		w.run(c2)
		natstest.Eventually(t, "it is reconciled again", func() bool {
			s, err := again.Get(t.Context(), "before")
			return err == nil && s.Status.Note == "again"
		})
		if got := lastDocument(t, again, "before"); !strings.Contains(got, `"title":"t1"`) {
			t.Errorf("after a restart the record has %s", got)
		}
		gone(again, c2, "before", "t1")
	})
}

// unread is a client that cannot read documents for a record now.
type unread struct {
	entity.IEntityClient[*site]
	away  atomic.Bool
	asked atomic.Int32
}

func (u *unread) EnginePort() entity.EnginePort[*site] {
	return unreadPort{u.IEntityClient.EnginePort(), u}
}

type unreadPort struct {
	entity.EnginePort[*site]
	of *unread
}

func (p unreadPort) WholeDocument(ctx context.Context, obj *site) ([]byte, error) {
	if p.of.away.Load() {
		p.of.asked.Add(1)
		return nil, errors.New("the leader is away")
	}
	return p.EnginePort.WholeDocument(ctx, obj)
}

// TestWithoutItsWholeDocumentNothingIsReconciledAndNoOutcomeIsLost: both are tried again.
func TestWithoutItsWholeDocumentNothingIsReconciledAndNoOutcomeIsLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.transforming("Site", "sites", untitled)
		client := &unread{IEntityClient: sites}
		client.away.Store(true)
		var all calls
		var fails atomic.Bool
		c, err := New("sites", client, all.reconciler(func(context.Context, Request) (Result, error) {
			if fails.Load() {
				return Result{}, errors.New("it failed")
			}
			return Result{}, nil
		}), WithBackoff(time.Millisecond, 100*time.Millisecond))
		must(t, err)
		w.run(c)
		triedInVain := func() {
			t.Helper()
			natstest.Eventually(t, "the document was tried to be read, which is told", func() bool {
				return client.asked.Load() > 1 && strings.Contains(fmt.Sprint(c.Stats().Degraded), "the leader is away")
			})
		}
		recorded := func(what string, holds func(*entity.Record) bool) {
			t.Helper()
			natstest.Eventually(t, what, func() bool {
				rec, err := sites.Record(t.Context(), "home")
				return err == nil && holds(rec) && strings.Contains(string(rec.LastDocument), `"title":"long"`)
			})
		}
		must(t, sites.Create(t.Context(), newSite("home", "long")))
		triedInVain()
		if n := all.count("home"); n != 0 {
			t.Errorf("it was reconciled %d times without an anchor", n)
		}
		client.away.Store(false)
		recorded("it is reconciled", func(rec *entity.Record) bool { return rec.ObservedRevision == 1 })
		isHealthy(t, c)

		client.asked.Store(0)
		client.away.Store(true)
		fails.Store(true)
		c.Enqueue("home", OperationManual)
		triedInVain()
		client.away.Store(false)
		recorded("the failure", func(rec *entity.Record) bool {
			return meta.IsStatusConditionFalse(rec.Conditions, entity.ConditionReconciled)
		})
		fails.Store(false)
		recorded("the success", func(rec *entity.Record) bool {
			return meta.IsStatusConditionTrue(rec.Conditions, entity.ConditionReconciled)
		})
		isHealthy(t, c)
	})
}

// TestCreateOrUpdateThroughATransformWritesNothingTwiceAndLosesNothing.
func TestCreateOrUpdateThroughATransformWritesNothingTwiceAndLosesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.transforming("Page", "pages", untitled)
		createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultCreated)
		p := named("home")
		createOrUpdateIs(t, pages, p, titled("one"), OperationResultNone)
		if p.Spec.Title != "one" {
			t.Errorf("handed back %+v", p.Spec)
		}
		if n := w.lastSequence("pages"); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		paged := func(p *page) error { p.Spec.Pages = 2; return nil }
		createOrUpdateIs(t, pages, named("home"), paged, OperationResultUpdated)
		createOrUpdateIs(t, pages, named("home"), paged, OperationResultNone)
		createOrUpdateIs(t, pages, named("home"), titled("two"), OperationResultUpdated)
		got, err := pages.Get(t.Context(), "home")
		must(t, err)
		if got.Spec != (siteSpec{Title: "two", Pages: 2}) {
			t.Errorf("the document has %+v", got.Spec)
		}
		if n := w.lastSequence("pages"); n != 3 {
			t.Errorf("%d writes, want 3", n)
		}
	})
}

// TestAReconcileThroughATransformComesToRest, though the transform leaves out what the reconcile sets, and the cascade
// finds what the transform has stripped of all metadata.
func TestAReconcileThroughATransformComesToRest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.transforming("Site", "sites", untitled), w.transforming("Page", "pages", untitled)
		var all calls
		c, err := New("sites", sites, all.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			_, err := CreateOrUpdate(ctx, pages, named(req.Key), titled("of "+req.Key))
			return Result{}, err
		}), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "long")))
		owned := func() *page {
			p, err := pages.Get(t.Context(), "home")
			if err != nil {
				return nil
			}
			return p
		}
		natstest.Eventually(t, "the page is there", func() bool { return owned() != nil && all.count("home") >= 2 })
		c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "it was asked for", func() bool { return all.with("home", OperationManual) > 0 })
		natstest.Eventually(t, "nothing is due", func() bool {
			s := c.Stats()
			return s.Ready == [3]int{} && s.Running == 0
		})
		if n := w.lastSequence("pages"); n != 1 {
			t.Errorf("%d writes of one page", n)
		}
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the cascade has deleted the page", func() bool { return owned() == nil })
	})
}

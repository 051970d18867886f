package controller

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNothingIsPrunedForADocumentThatIsNotTheLatest: while a reconcile runs the document comes to want the old page
// again, or goes, and the cache does not show it, or shows it before the reconcile has ended. Before it is pruned the
// leader is asked, as before a cascade.
func TestNothingIsPrunedForADocumentThatIsNotTheLatest(t *testing.T) {
	for name, test := range map[string]struct {
		deleted bool
		unseen  bool // by the cache
	}{
		"changed, unseen": {false, true}, "changed": {false, false}, "deleted, unseen": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				direct := newWorld(t)
				behind, relay := direct.behindRelay()
				p := &pruned{world: behind}
				p.prefix.Store("")
				var changed, released atomic.Bool
				p.also.Store(func(context.Context, Request) (Result, error) { return Result{}, nil })
				p.begin(WithResyncInterval(0), WithInstance("here"))
				sites := direct.sites()
				must(t, sites.Create(t.Context(), newSite("home", "a")))
				p.eventuallyPages("it has its page", "home.a")
				p.reconciled("home")
				p.also.Store(func(ctx context.Context, req Request) (Result, error) {
					obj, err := p.sites.Lister().Get("home")
					if err != nil || obj.Spec.Title != "b" || released.Load() ||
						!req.Operations.Has(OperationResync) { // the brake has not let it go yet
						return Result{}, nil
					}
					if changed.CompareAndSwap(false, true) {
						if test.unseen {
							relay.mute("sites")
						}
						if test.deleted {
							must(t, sites.Delete(ctx, "home"))
						} else {
							must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"a,b"}}`)))
						}
					}
					for !test.unseen && obj.Spec.Title == "b" {
						obj, err = p.sites.Lister().Get("home")
						must(t, err)
					}
					return Result{}, nil
				})
				must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"b"}}`)))
				natstest.Eventually(t, "the document is another", changed.Load)
				throughout(t, 2*time.Second, "both pages are there", func() bool {
					return exists(t, p.pages, "home.a") && p.c.Stats().Pruned == 0
				})
				relay.mute("")
				released.Store(true)
				if test.deleted {
					p.eventuallyPages("they go with their primary")
					return
				}
				p.eventuallyPages("it has both", "home.a", "home.b")
				p.reconciled("home")
				must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"b"}}`)))
				p.eventuallyPages("then the old one goes", "home.b")
			})
		})
	}
}

// TestNothingIsPrunedThatTheLeaderIsNotAskedFor: it does not answer, which is the reconcile's error, and is tried
// again.
func TestNothingIsPrunedThatTheLeaderIsNotAskedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := &deaf{Client: w.sites()}, w.pages()
		var title atomic.Value
		title.Store("a")
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			name := fmt.Sprintf("%s.%s", req.Key, title.Load())
			_, err := CreateOrUpdate(ctx, pages, newSite(name, ""), func(*page) error { return nil })
			return Result{}, err
		}), Owns(pages, WithPrune()), quickRetries)
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites.Client, "home", entity.ReasonSynced)
		sites.deaf.Store(true)
		title.Store("b")
		c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "the record says that the leader does not answer", func() bool {
			record, err := sites.Record(t.Context(), "home")
			must(t, err)
			condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled)
			return condition != nil && condition.Status == metav1.ConditionFalse && c.Stats().LeaderErrors > 0
		})
		if !exists(t, pages, "home.a") {
			t.Error("the old page has gone")
		}
		sites.deaf.Store(false)
		names := (&pruned{world: w, pages: pages}).names
		natstest.Eventually(t, "the old page goes", func() bool { return slices.Equal(names(), []string{"home.b"}) })
	})
}

// deaf is a client whose leader may not answer.
type deaf struct {
	*entity.Client[*site]
	deaf atomic.Bool
}

func (d *deaf) EnginePort() entity.EnginePort[*site] {
	return confirms{d.Client.EnginePort(), d.Confirm}
}

func (d *deaf) Confirm(ctx context.Context, key string) (entity.Presence, error) {
	if d.deaf.Load() {
		return entity.Presence{}, context.DeadlineExceeded
	}
	return d.Client.Confirm(ctx, key)
}

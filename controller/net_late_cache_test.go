package controller

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheNextReconcileSeesWhatTheLastOneWrote in the informer's own store too, which learns of own writes from the
// watch only. Here the watch is slow: each delivery comes late.
func TestTheNextReconcileSeesWhatTheLastOneWrote(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, relay := newWorld(t).behindRelay()
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		const rounds, behind = 10, 30 * time.Millisecond
		relay.late("pages", behind)
		written, late := "", 0
		done := make(chan struct{})
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if written != "" {
				item, ok, err := pages.Informer().GetStore().GetByKey("p")
				if err != nil || !ok || item.(*page).Spec.Title != written {
					late++
				}
			}
			next := written + "x"
			if len(next) > rounds {
				close(done)
				return Result{}, TerminalError(errDone)
			}
			p := &page{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
			if _, err := CreateOrUpdate(ctx, pages, p,
				func(p *page) error { p.Spec.Title = next; return nil }); err != nil {
				return Result{}, err
			}
			written = next
			return Result{RequeueAfter: 1}, nil
		}), Watches(pages, func(context.Context, *page) ([]string, error) { return nil, nil }))
		must(t, err)
		w.run(c)
		began := time.Now()
		must(t, sites.Create(ctx, newSite("home", "one")))
		<-done
		if late > 0 {
			t.Errorf("%d of %d reconciles began before the cache showed the last one's write", late, rounds)
		}
		if took := time.Since(began); took < rounds*behind || took > rounds*(behind+20*time.Millisecond) {
			t.Errorf("%d rounds took %v, and the cache is %v late", rounds, took, behind)
		}
	})
}

// TestACacheThatIsCutOffDoesNotStopReconciles: a reconcile waits for what the last one wrote, but not for ever.
func TestACacheThatIsCutOffDoesNotStopReconciles(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, relay := newWorld(t).behindRelay()
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			if seen.count(req.Key) > 1 {
				return Result{}, nil
			}
			relay.mute("pages")
			return Result{RequeueAfter: 1}, pages.Create(ctx, newPage("p", ""))
		}), Watches(pages, func(context.Context, *page) ([]string, error) { return nil, nil }))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is reconciled again", func() bool { return seen.count("home") > 1 })
		if _, shown, err := pages.Informer().GetStore().GetByKey("p"); shown || err != nil {
			t.Error("the cache was not cut off: this test has lost its subject")
		}
	})
}

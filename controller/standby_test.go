package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAReplicaThatWaitsRemembersOnlyKeysThatExist, and what somebody enqueued there; when it takes over it owes no
// less.
func TestAReplicaThatWaitsRemembersOnlyKeysThatExist(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newWorld(t)
		timing := WithLeaseTiming(longLease)
		block := make(chan struct{})
		sites, pages := w.sites(), w.pages()
		leader, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Key == "owed" && req.Operations.Has(OperationDelete) {
				<-block
				return Result{}, context.Canceled
			}
			return Result{}, nil
		}), Owns(pages), WithWorkers(2), WithResyncInterval(0), timing)
		must(t, err)
		r := w.run(leader)
		natstest.Eventually(t, "the first leads", func() bool { return leader.Stats().Leading })
		var seen calls
		ours := w.sites()
		waiting, err := New("sites", ours, seen.reconciler(nil), Owns(w.pages()), WithResyncInterval(0), timing)
		must(t, err)
		w.run(waiting)

		const n = 100
		for i := range n {
			must(t, sites.Create(ctx, newSite(fmt.Sprint("site-", i), "one")))
			must(t, pages.Create(ctx, w.ownedPage(fmt.Sprint("page-", i), fmt.Sprint("site-", i))))
		}
		must(t, sites.Create(ctx, newSite("owed", "one")))
		eventuallyReason(t, sites, "owed", entity.ReasonSynced)
		natstest.Eventually(t, "the second knows them", func() bool { return waiting.Stats().Remembered == n+1 })
		for i := range n {
			must(t, sites.Delete(ctx, fmt.Sprint("site-", i)))
		}
		natstest.Eventually(t, "they are torn down", func() bool { return leader.Stats().TornDown == n })
		natstest.Eventually(t, "the second has forgotten them", func() bool {
			s := waiting.Stats()
			return s.Remembered == 1 && s.Ready[0]+s.Ready[1]+s.Ready[2] == 1 &&
				waiting.Explain("owed").Reasons != ""
		})

		waiting.Enqueue("nobody", OperationManual)
		must(t, sites.Delete(ctx, "owed"))
		natstest.Eventually(t, "the second knows that it is gone", func() bool {
			return !ours.Informer().Exists("owed")
		})
		natstest.Eventually(t, "the first is in its teardown", func() bool { return leader.Stats().Running == 1 })
		close(block)
		r.halt()
		natstest.Eventually(t, "the second does what is owed", noRecord(t, ours, "owed"))
		natstest.Eventually(t, "and what it was asked for", func() bool {
			return seen.with("nobody", OperationManual) > 0
		})
	})
}

// TestWhatWasListedBeforeThePrimariesIsNotDueOnAReplicaThatWaits: secondaries name owners that are not there, and no
// event would ever tell of those.
func TestWhatWasListedBeforeThePrimariesIsNotDueOnAReplicaThatWaits(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		timing := WithLeaseTiming(longLease)
		leader, err := New("sites", w.sites(), (&calls{}).reconciler(nil), WithResyncInterval(0), timing)
		must(t, err)
		w.run(leader)
		natstest.Eventually(t, "the first leads", func() bool { return leader.Stats().Leading })
		pages := w.pages()
		for i := range 5 {
			must(t, pages.Create(ctx, w.ownedPage(fmt.Sprint("page-", i), fmt.Sprint("gone-", i))))
		}
		waiting, err := New("sites", w.sites(), (&calls{}).reconciler(nil), Owns(w.pages()), WithResyncInterval(0), timing)
		must(t, err)
		w.run(waiting)
		time.Sleep(10 * time.Second)
		s := waiting.Stats()
		if s.Leading || !s.Synced {
			t.Fatalf("it does not wait: %+v", s)
		}
		if s.Ready[0]+s.Ready[1]+s.Ready[2] != 0 {
			t.Errorf("due: %v", s.Ready)
		}
	})
}

//go:build !race

package controller

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is allocated does not depend on what else the machine does, so it is held where times cannot be. A limit is
// what was measured and a tenth more. The race detector allocates too: these tests run without it.

// TestAllocationsOfDispatch holds what the engine allocates for one key, from the queue to the end of an empty
// reconcile, whose document and record are there already.
func TestAllocationsOfDispatch(t *testing.T) {
	w := newWorld(t)
	sites := w.sites()
	const keys, rounds = 1000, 20
	for i := range keys {
		must(t, sites.Create(t.Context(), newSite(fmt.Sprint("site-", i), "one")))
	}
	reconciled := &atomic.Int64{}
	c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
		reconciled.Add(1)
		return Result{}, nil
	}), WithWorkers(4), WithResyncInterval(0))
	must(t, err)
	w.run(c)
	natstest.Eventually(t, "all are anchored", func() bool {
		return reconciled.Load() >= keys && c.engine.QueueCounts().InProgress == 0
	})
	names, q := sites.Informer().GetStore().ListKeys(), c.engine.Explainer().Queue
	round := func() {
		before := reconciled.Load()
		for _, key := range names {
			q.Add(key, operation.Of(OperationResync), queue.Background)
		}
		natstest.Eventually(t, "all were reconciled", func() bool {
			return reconciled.Load() >= before+keys && c.engine.QueueCounts().InProgress == 0
		})
	}
	round()
	got := math.Inf(1) // the least of the rounds: what waits for their end allocates too, the more the longer it waits
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		round()
		runtime.ReadMemStats(&after)
		got = min(got, float64(after.Mallocs-before.Mallocs)/keys)
	}
	t.Logf("%.2f allocations per key", got)
	// the context of the reconcile, and where more keys wait than are spared, what the queue knows of one
	if limit := 1.6; got > limit {
		t.Errorf("a key allocates %.2f times, want at most %.2f", got, limit)
	}
}

// TestAllocationsOfCreateOrUpdateThatChangesNothing holds what a reconcile costs for each of its secondaries when all
// is well.
func TestAllocationsOfCreateOrUpdateThatChangesNothing(t *testing.T) {
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	must(t, sites.Create(t.Context(), newSite("home", "one")))
	ensure := func(ctx context.Context) (OperationResult, error) {
		return CreateOrUpdate(ctx, pages, &page{ObjectMeta: metav1.ObjectMeta{Name: "start"}}, func(p *page) error {
			p.Spec = siteSpec{Title: "start", Pages: 3}
			return nil
		})
	}
	got := make(chan float64, 1)
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
		if result, err := ensure(ctx); err != nil || result != OperationResultNone {
			return Result{}, err // again, by the secondary's own event
		}
		if len(got) == 0 {
			got <- testing.AllocsPerRun(1000, func() {
				if result, err := ensure(ctx); err != nil || result != OperationResultNone {
					t.Errorf("%v, %v", result, err)
				}
			})
		}
		return Result{}, nil
	}), Owns(pages), WithResyncInterval(0))
	must(t, err)
	w.run(c)
	allocations := <-got
	t.Logf("%v allocations", allocations)
	if limit := 41.0; allocations > limit {
		t.Errorf("CreateOrUpdate allocates %v times, want at most %v", allocations, limit)
	}
}

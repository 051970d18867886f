package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// What a proof costs, beside the same without: a sweep of objects whose owner is there, and a CreateOrUpdate that
// changes nothing.
func benchProof(b *testing.B, run func(b *testing.B, opts ...Option)) {
	b.Run("without", func(b *testing.B) { run(b) })
	b.Run("proven", func(b *testing.B) { run(b, WithOwnerProof(proofSecret('a'))) })
}

// inBenchReconcile calls f in a reconcile of "home", and waits for it.
func inBenchReconcile(
	b *testing.B, f func(context.Context, *Controller[*site], *entity.Client[*page]), opts ...Option,
) {
	server := natstest.Start(b)
	_, js := natstest.Connect(b, server.URL())
	sites := benchClient(b, js)
	pages, err := entity.NewClient[*page](b.Context(), js,
		entity.Config{Kind: "Page", Bucket: "pages", Storage: jetstream.MemoryStorage})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pages.Close)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var c *Controller[*site]
	c, err = New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
		defer stop()
		f(ctx, c, pages)
		return Result{}, nil
	}), append(opts, Owns(pages), WithResyncInterval(0), WithGracePeriod(-1))...)
	if err != nil {
		b.Fatal(err)
	}
	if err := sites.Create(b.Context(), newSite("home", "one")); err != nil {
		b.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSweepOfOwned sweeps 10,000 pages, all of which have their owner.
func BenchmarkSweepOfOwned(b *testing.B) {
	benchProof(b, func(b *testing.B, opts ...Option) {
		inBenchReconcile(b, func(ctx context.Context, c *Controller[*site], pages *entity.Client[*page]) {
			const n = 10_000
			for i := range n {
				obj := newPage(fmt.Sprint("page-", i), "one")
				c.SetProvenOwner(obj, "home", ProofOfBucket("pages"))
				if err := pages.Create(ctx, obj); err != nil {
					b.Error(err)
					return
				}
			}
			for len(pages.Informer().GetStore().ListKeys()) < n {
				time.Sleep(time.Millisecond)
			}
			teardown := c.engine.Explainer().Teardown
			b.ReportAllocs()
			for b.Loop() {
				if found, ownerless := teardown.Sweep(ctx); len(found)+ownerless.Unproven > 0 {
					b.Errorf("found %v, %+v", found, ownerless)
				}
			}
		}, opts...)
	})
}

// BenchmarkCreateOrUpdateUnchanged writes nothing.
func BenchmarkCreateOrUpdateUnchanged(b *testing.B) {
	benchProof(b, func(b *testing.B, opts ...Option) {
		inBenchReconcile(b, func(ctx context.Context, _ *Controller[*site], pages *entity.Client[*page]) {
			mutate := func(p *page) error { p.Spec = siteSpec{Title: "start", Pages: 3}; return nil }
			if _, err := CreateOrUpdate(ctx, pages, named("start"), mutate); err != nil {
				b.Error(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if result, err := CreateOrUpdate(ctx, pages, named("start"), mutate); err != nil ||
					result != OperationResultNone {
					b.Errorf("%v, %v", result, err)
				}
			}
		}, opts...)
	})
}

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
	"github.com/nats-io/nats.go/jetstream"
)

// limit changes the limits of a bucket.
func (w *world) limit(bucket string, change func(*jetstream.StreamConfig)) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	cfg := stream.CachedInfo().Config
	change(&cfg)
	_, err = w.js.UpdateStream(w.t.Context(), cfg)
	must(w.t, err)
}

// limitBytes sets max_bytes of a bucket; -1 for no limit.
func (w *world) limitBytes(bucket string, bytes int64) {
	w.t.Helper()
	w.limit(bucket, func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = bytes })
}

// limitMessages sets max_msg_size of a bucket; -1 for no limit.
func (w *world) limitMessages(bucket string, bytes int32) {
	w.t.Helper()
	w.limit(bucket, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = bytes })
}

// limitAge sets max_age of the documents; 0 for no limit.
func (w *world) limitAge(age time.Duration) {
	w.t.Helper()
	w.limit("sites", func(cfg *jetstream.StreamConfig) { cfg.MaxAge, cfg.Duplicates = age, 0 })
}

// TestAFullBucketCostsItsOwnKeysOnly: each refused write held a worker for ten seconds.
func TestAFullBucketCostsItsOwnKeysOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const full, free = 20, 50
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, pages.Create(t.Context(), newSite("first", "")))
		w.limitBytes("pages", 200)
		var refused atomic.Int64
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !strings.HasPrefix(req.Key, "full") {
				return Result{}, nil
			}
			_, err := CreateOrUpdate(ctx, pages, named(req.Key), titled(strings.Repeat("x", 1000)))
			if errors.Is(err, entity.ErrFull) {
				refused.Add(1)
			}
			return Result{}, err
		}), Owns(pages), WithWorkers(4), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		began := time.Now()
		for i := range full {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprint("full-", i), "")))
		}
		for i := range free {
			must(t, sites.Create(t.Context(), newSite(fmt.Sprint("free-", i), "")))
		}
		for i := range free {
			eventuallyReason(t, sites, fmt.Sprint("free-", i), entity.ReasonSynced)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the others took %v", took)
		}
		natstest.Eventually(t, "all others were refused", func() bool { return refused.Load() >= full })
		w.limitBytes("pages", -1)
		for i := range full {
			eventuallyReason(t, sites, fmt.Sprint("full-", i), entity.ReasonSynced)
		}
	})
}

// TestAStatusBucketThatTakesNoRecordIsDegraded with the reason, until it takes them: that it is full, or that a record
// is too large for it, is not the fault of one key.
func TestAStatusBucketThatTakesNoRecordIsDegraded(t *testing.T) {
	for says, test := range map[string]struct {
		err   error
		limit func(w *world, n int)
	}{
		"max_msg_size": {entity.ErrRefused, func(w *world, n int) { w.limitMessages("sites-status", int32(n)) }},
		"max_bytes":    {entity.ErrFull, func(w *world, n int) { w.limitBytes("sites-status", int64(n)) }},
	} {
		t.Run(says, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.sites()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), WithLeaseTiming(longLease))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("before", "")))
				eventuallyReason(t, sites, "before", entity.ReasonSynced)
				test.limit(w, 100)
				must(t, sites.Create(t.Context(), newSite("home", "")))
				natstest.Eventually(t, "records are degraded", func() bool {
					for _, reason := range c.Stats().Degraded {
						if errors.Is(reason, test.err) && strings.Contains(reason.Error(), says) {
							return true
						}
					}
					return false
				})
				if n := seen.count("home"); n != 0 {
					t.Errorf("it was reconciled %d times without an anchor", n)
				}
				test.limit(w, -1)
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
			})
		})
	}
}

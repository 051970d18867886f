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
)

// limitBytes sets max_bytes of a bucket; -1 for no limit.
func (w *world) limitBytes(bucket string, bytes int64) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxBytes = bytes
	_, err = w.js.UpdateStream(w.t.Context(), cfg)
	must(w.t, err)
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

// TestAStatusBucketThatTakesNoRecordIsDegraded: that a record is too large for it is not the fault of one key.
func TestAStatusBucketThatTakesNoRecordIsDegraded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		stream, err := w.js.Stream(t.Context(), "KV_sites-status")
		must(t, err)
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgSize = 100
		_, err = w.js.UpdateStream(t.Context(), cfg)
		must(t, err)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "records are degraded", func() bool {
			for _, reason := range c.Stats().Degraded {
				if errors.Is(reason, entity.ErrRefused) && strings.Contains(reason.Error(), "max_msg_size") {
					return true
				}
			}
			return false
		})
		cfg.MaxMsgSize = -1
		_, err = w.js.UpdateStream(t.Context(), cfg)
		must(t, err)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}

// TestAFullStatusBucketIsDegraded with the reason, until there is room again.
func TestAFullStatusBucketIsDegraded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithLeaseTiming(longLease))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("before", "")))
		eventuallyReason(t, sites, "before", entity.ReasonSynced)
		w.limitBytes("sites-status", 10)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "records are degraded", func() bool {
			for _, reason := range c.Stats().Degraded {
				if errors.Is(reason, entity.ErrFull) && strings.Contains(reason.Error(), "max_bytes") {
					return true
				}
			}
			return false
		})
		if n := seen.count("home"); n != 0 {
			t.Errorf("it was reconciled %d times without an anchor", n)
		}
		w.limitBytes("sites-status", -1)
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}

package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// counted is a client of a user's who embeds the interface and overrides one method.
type counted struct {
	entity.IEntityClient[*site]
	deletes atomic.Int32
}

func (c *counted) Delete(ctx context.Context, key string, opts ...entity.DeleteOption) error {
	c.deletes.Add(1)
	return c.IEntityClient.Delete(ctx, key, opts...)
}

// TestAClientOfTheUsersThatOverridesOneMethodIsAClientLikeAnother, from a create over a restore to a teardown: of its
// methods its own are called.
func TestAClientOfTheUsersThatOverridesOneMethodIsAClientLikeAnother(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := &massed{world: w, sites: w.client("Site", "sites", quickCompare), pages: w.pages(), seen: &calls{}}
		sites, pages := &counted{IEntityClient: m.sites}, &counted{IEntityClient: m.pages}
		var err error
		m.c, err = New("sites", sites, m.seen.reconciler(onePage(sites, pages)), Owns(pages), WithLeaseTiming(longLease))
		must(t, err)
		w.run(m.c)
		for i := range many {
			must(t, sites.Create(t.Context(), newSite(siteName(i), "t")))
		}
		for i := range many {
			s, err := sites.Get(t.Context(), siteName(i))
			must(t, err)
			must(t, entity.WaitReconciled(t.Context(), sites, siteName(i), uint64(s.Generation)))
		}

		m.emptied("sites")
		m.holdsAll()
		restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), many)
		if err != nil || restored != many {
			t.Fatalf("%d restored, error %v", restored, err)
		}
		m.isBack()
		if n := pages.deletes.Load(); n != 0 {
			t.Fatalf("%d pages were deleted", n)
		}

		must(t, sites.Delete(t.Context(), siteName(0)))
		must(t, entity.WaitDeleted(t.Context(), sites, siteName(0)))
		if n := pages.deletes.Load(); n != 1 || exists(t, m.pages, siteName(0)) {
			t.Errorf("the cascade called the user's Delete %d times, and the page exists: %v",
				n, exists(t, m.pages, siteName(0)))
		}
		if n := m.seen.with(siteName(0), OperationDelete); n == 0 {
			t.Error("the reconciler was not told Delete")
		}
	})
}

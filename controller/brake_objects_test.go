package controller

import (
	"context"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNineSitesWithManyPagesAreHeld when they vanish without a delete, as by one message that purges the bucket, while
// the controller runs and while it does not. Nine are too few for the rule that counts primaries.
func TestNineSitesWithManyPagesAreHeld(t *testing.T) {
	const few, each = 9, 5
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start := func(w *world) (*massed, func()) {
					m := &massed{world: w, sites: w.client("Site", "sites", quickCompare, onDisk),
						pages: w.client("Page", "pages", quickCompare, onDisk)}
					var err error
					m.c, err = New("sites", m.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
						for i := range each {
							p := &page{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", req.Key, i)}}
							if _, err := CreateOrUpdate(ctx, m.pages, p, func(*page) error { return nil }); err != nil {
								return Result{}, err
							}
						}
						return Result{}, nil
					}), Owns(m.pages), WithLeaseTiming(longLease))
					must(t, err)
					m.r = m.run(m.c)
					return m, m.r.halt
				}
				m, halt := start(w)
				w.make(m.sites, few)
				w.settled(m.c, m.sites, few)
				if !running {
					halt()
				}
				m.emptied("sites")
				if !running {
					m, _ = start(w.away())
				}
				natstest.Eventually(t, "the brake holds them", func() bool {
					b := m.c.Stats().Brake
					return b.Engaged && b.Held == few
				})
				if n := count(t, m.pages); n != few*each {
					t.Errorf("%d pages are left of %d", n, few*each)
				}
				m.operatorReleases()
				natstest.Eventually(t, "they are torn down", func() bool { return count(t, m.pages) == 0 })
			})
		})
	}
}

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// besides are two installations of one controller, each with its own documents, over one bucket of pages. The second
// runs, and makes its pages again when somebody deletes them. The first does not run.
type besides struct {
	*world
	sites, pages *entity.Client[*site]
	first        string // the id
	second       *Controller[*site]
}

// besidesOf has so many sites in the first.
func besidesOf(t *testing.T, sites int) *besides {
	t.Helper()
	const theirs = 9
	w := newWorld(t)
	m := w.massed()
	w.make(m.sites, sites)
	w.settled(m.c, m.sites, sites)
	natstest.Eventually(t, "it leads", func() bool { return m.c.Stats().Leading })
	b := &besides{first: m.c.Instance()}
	m.r.halt()
	b.world = w.away()
	b.sites, b.pages = b.client("Site", "sites", quickCompare, onDisk), b.client("Page", "pages", quickCompare, onDisk)
	others, otherPages := b.client("Site", "others"), b.client("Page", "pages", quickCompare, onDisk)
	c, err := New("others", others, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if s, err := others.Lister().Get(req.Key); err != nil || s == nil {
			return Result{}, nil
		}
		p := newSite(req.Key, "")
		_, err := CreateOrUpdate(ctx, otherPages, p, func(*page) error { return nil })
		return Result{}, err
	}), Owns(otherPages), WithLeaseTiming(longLease), WithInstance("second"))
	must(t, err)
	b.run(c)
	for i := range theirs {
		must(t, others.Create(t.Context(), newSite(fmt.Sprintf("their-%d", i), "")))
	}
	natstest.Eventually(t, "the second has its pages", func() bool { return count(t, b.pages) == sites+theirs })
	b.second = c
	b.put("sites-status", "_nagi.instance", c.Instance())
	return b
}

// starts starts the first again.
func (b *besides) starts(opts ...Option) *Controller[*site] {
	b.t.Helper()
	c, err := New("sites", b.sites, (&calls{}).reconciler(onePage(b.sites, b.pages)), append(opts,
		Owns(b.pages), WithLeaseTiming(longLease), WithResyncInterval(time.Second), WithWorkers(4))...)
	must(b.t, err)
	b.run(c)
	return c
}

// revisions are those of all pages, which change when a page is deleted and made anew.
func (b *besides) revisions() string {
	b.t.Helper()
	all, err := b.pages.List(b.t.Context())
	must(b.t, err)
	var text []string
	for _, p := range all {
		text = append(text, p.GetName()+"@"+p.GetResourceVersion())
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

// TestAnIDThatIsAnothersStartsNothing: the id of another installation, put while the controller does not run, makes
// that one's objects garbage of this one. It does not lead before the right id is there.
func TestAnIDThatIsAnothersStartsNothing(t *testing.T) {
	for _, sites := range []int{0, 3} {
		t.Run(fmt.Sprintf("%d sites", sites), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				b := besidesOf(t, sites)
				before := b.revisions()
				c := b.starts()
				const degraded = "installation (bucket sites-status)"
				natstest.Eventually(t, "it is told", func() bool { return c.Stats().Degraded[degraded] != nil })
				says(t, c.Stats().Degraded[degraded], b.first, b.second.Instance(),
					"nats kv put sites-status _nagi.instance "+b.first)
				if s := c.Stats(); s.Reconciles != 0 || s.Sweeps != 0 || b.revisions() != before {
					t.Errorf("%d reconciles, %d sweeps, pages %s", s.Reconciles, s.Sweeps, b.revisions())
				}
				b.put("sites-status", "_nagi.instance", b.first)
				natstest.Eventually(t, "it leads and has swept", func() bool { return c.Stats().Sweeps > 2 })
				if b.revisions() != before || c.Instance() != b.first {
					t.Errorf("pages %s, id %q", b.revisions(), c.Instance())
				}
				isHealthy(t, c)
			})
		})
	}
}

// TestObjectsOfAnotherStreamAreLeft where nothing tells which id the controller led with, or an option insists on the
// wrong one: their owners never were in this bucket.
func TestObjectsOfAnotherStreamAreLeft(t *testing.T) {
	for _, forced := range []bool{false, true} {
		t.Run(fmt.Sprintf("forced=%v", forced), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				b := besidesOf(t, 3)
				if before := b.revisions(); forced {
					b.leftAlone(b.starts(WithInstance(b.second.Instance())), before)
				} else {
					must(t, b.kv("sites-status").Delete(t.Context(), "_nagi.ledwith"))
					b.leftAlone(b.starts(), before)
				}
			})
		})
	}
}

func (b *besides) leftAlone(c *Controller[*site], before string) {
	b.t.Helper()
	const degraded = "restore (bucket sites-status)"
	natstest.Eventually(b.t, "it is told", func() bool { return c.Stats().Degraded[degraded] != nil })
	if reason := c.Stats().Degraded[degraded].Error(); !strings.Contains(reason, "of 9 one of another stream") {
		b.t.Errorf("reason %q", reason)
	}
	sweeps := c.Stats().Sweeps
	natstest.Eventually(b.t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+3 })
	if now := b.revisions(); now != before {
		b.t.Errorf("pages are\n%s, and were\n%s", now, before)
	}
}

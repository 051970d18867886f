package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// losesTheLease has the controller, which leads, become a standby, and returns some time later.
func (w *world) losesTheLease(c *Controller[*site]) {
	w.t.Helper()
	w.leaseTo("another", time.Hour)
	natstest.Eventually(w.t, "it is a standby", func() bool { return !c.Stats().Leading })
	time.Sleep(10 * time.Second)
}

// TestAProblemOfATermEndsWithTheTerm: the next leader reports it, and mends it or not. This replica heard no more of it,
// and told for ever what had been.
func TestAProblemOfATermEndsWithTheTerm(t *testing.T) {
	for name, of := range map[string]struct {
		problem string // its name
		arise   func(t *testing.T, w *world) *Controller[*site]
		mend    func(t *testing.T, w *world) // at the moment at which the lease is lost
	}{
		"a record that cannot be written": {"records (bucket sites-status)",
			func(t *testing.T, w *world) *Controller[*site] {
				sites := w.sites()
				c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal)
				must(t, err)
				w.run(c)
				natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
				w.limitBytes("sites-status", 100)
				must(t, sites.Create(t.Context(), newSite("home", strings.Repeat("x", 1000))))
				return c
			},
			func(t *testing.T, w *world) { w.limitBytes("sites-status", -1) },
		},
		"a reserved key that does not decode": {record.IntentsKey("gone") + " (bucket sites-status)",
			func(t *testing.T, w *world) *Controller[*site] {
				sites := w.sites()
				w.put("sites-status", record.IntentsKey("gone"), `{"key":`)
				c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal)
				must(t, err)
				w.run(c)
				return c
			},
			func(t *testing.T, w *world) {
				must(t, w.kv("sites-status").Delete(t.Context(), record.IntentsKey("gone")))
			},
		},
		"objects of a former kind": {"former kind (bucket sites-status)",
			func(t *testing.T, w *world) *Controller[*site] {
				pages := w.pages()
				first, err := New("sites", w.sites(), onePage(w.sites(), pages), Owns(pages))
				must(t, err)
				r := w.run(first)
				must(t, w.sites().Create(t.Context(), newSite("home", "one")))
				natstest.Eventually(t, "it has its page", func() bool { return exists(t, pages, "home") })
				r.halt()
				c, err := New("sites", w.client("Website", "sites"), (&calls{}).reconciler(nil), Owns(w.pages()), slowRenewal)
				must(t, err)
				w.run(c)
				return c
			},
			func(t *testing.T, w *world) { must(t, w.pages().Delete(t.Context(), "home")) },
		},
		"a Delete that does nothing": {"calls of OwnsExternal Cloud",
			func(t *testing.T, w *world) *Controller[*site] {
				cloud := &cloudOfOne{owner: "home"}
				sites := w.sites()
				c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal, OwnsExternal(
					external.Configure(cloud, external.Config{Interval: 24 * time.Hour})))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "one")))
				time.Sleep(time.Second)
				must(t, sites.Delete(t.Context(), "home"))
				return c
			},
			func(*testing.T, *world) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := of.arise(t, w)
				time.Sleep(time.Minute)
				if c.Stats().Degraded[of.problem] == nil {
					t.Fatalf("while it leads degraded is %v", c.Stats().Degraded)
				}
				of.mend(t, w)
				w.losesTheLease(c)
				for problem, err := range c.Stats().Degraded {
					t.Errorf("a standby is degraded: %s: %v", problem, err)
				}
			})
		})
	}
}

// cloudOfOne is an API with one resource that it does not delete.
type cloudOfOne struct{ owner string }

func (c *cloudOfOne) Kind() string                         { return "Cloud" }
func (c *cloudOfOne) Delete(context.Context, string) error { return nil }
func (c *cloudOfOne) List(context.Context) ([]external.Resource, error) {
	return []external.Resource{{ID: "one", OwnerKey: c.owner}}, nil
}

// TestTheEndOfATermIsNoRecoveryToTheRecorder: records that could not be written are written by another replica now, or
// not.
func TestTheEndOfATermIsNoRecoveryToTheRecorder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var told events
		var changes toldOf[string]
		c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal, WithEventRecorder(&told),
			WithOnSourceError(func(name string, err error) { changes.add(fmt.Sprint(name, " ", err == nil)) }))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.limitBytes("sites-status", 100)
		must(t, sites.Create(t.Context(), newSite("home", strings.Repeat("x", 1000))))
		time.Sleep(time.Minute)
		w.limitBytes("sites-status", -1)
		w.losesTheLease(c)
		const records = "records (bucket sites-status)"
		of := func(reason string) (n int) {
			for _, e := range told.with(reason) {
				if strings.HasPrefix(e.message, records) {
					n++
				}
			}
			return n
		}
		if of("SourceDegraded") != 1 || of("SourceRecovered") != 0 {
			t.Errorf("degraded: %v, recovered: %v", told.with("SourceDegraded"), told.with("SourceRecovered"))
		}
		all := strings.Join(changes.all(), ", ")
		if !strings.Contains(all, records+" false") || !strings.Contains(all, records+" true") {
			t.Errorf("the callback was told: %s", all)
		}
	})
}

// TestAStandbyHasNoCountsOfItsLastTerm: the one that leads has its own of what sweeps found and what the brake holds.
func TestAStandbyHasNoCountsOfItsLastTerm(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.filled(slowRenewal, WithResyncInterval(30*time.Second))
		must(t, m.pages.Create(t.Context(), w.ownedPage("orphan", "nobody")))
		m.emptied("sites")
		m.holdsAll()
		time.Sleep(time.Minute)
		if s := m.c.Stats(); !s.Brake.Engaged || s.Orphaned == 0 || !m.c.Explain(siteName(0)).Held {
			t.Fatalf("while it leads: brake %+v, orphaned %d", s.Brake, s.Orphaned)
		}
		m.losesTheLease(m.c)
		s := m.c.Stats()
		if s.Brake != (BrakeState{}) || s.Orphaned != 0 || s.NeverWas != 0 || m.c.Explain(siteName(0)).Held {
			t.Errorf("a standby: brake %+v, orphaned %d", s.Brake, s.Orphaned)
		}
	})
}

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// orphaned is an installation whose status bucket was lost while no controller ran. One of its sites went meanwhile.
type orphaned struct {
	*world
	sites, pages *entity.Client[*site]
	id           string
}

func newOrphaned(t *testing.T) *orphaned {
	t.Helper()
	const n = 5
	w := newWorld(t)
	m := w.massed()
	w.make(m.sites, n)
	w.settled(m.c, m.sites, n)
	natstest.Eventually(t, "each has its page", func() bool { return count(t, m.pages) == n })
	id := m.c.Instance()
	m.r.halt()
	must(t, m.sites.Delete(t.Context(), siteName(0)))
	m.sites.Close()
	must(t, w.js.DeleteKeyValue(t.Context(), "sites-status"))
	away := w.away()
	return &orphaned{world: away, sites: away.sites(), pages: away.pages(), id: id}
}

func (o *orphaned) controller(opts ...Option) *Controller[*site] {
	o.t.Helper()
	c, err := New("sites", o.sites, (&calls{}).reconciler(onePage(o.sites, o.pages)),
		append(opts, Owns(o.pages), WithLeaseTiming(longLease))...)
	must(o.t, err)
	return c
}

// swept waits until what was left of the site that went is deleted, and nothing else.
func (o *orphaned) swept(c *Controller[*site]) {
	o.t.Helper()
	natstest.Eventually(o.t, "the page of the site that went is deleted", func() bool {
		return count(o.t, o.pages) == 4
	})
	if c.Instance() != o.id || o.instance() != o.id {
		o.t.Errorf("the instance is %q, and %q in the bucket; want %q", c.Instance(), o.instance(), o.id)
	}
}

// TestALostStatusBucketMakesNoNewInstallation: a new id would make everything that the primaries own another
// installation's, which nobody may touch. It waits until somebody says which installation it is.
func TestALostStatusBucketMakesNoNewInstallation(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		o := newOrphaned(t)
		c := o.controller()
		o.run(c)
		const degraded = "installation (bucket sites-status)"
		natstest.Eventually(t, "it is told", func() bool { return c.Stats().Degraded[degraded] != nil })
		says(t, c.Stats().Degraded[degraded], o.id, "5 objects", "bucket pages",
			"nats kv put sites-status _nagi.instance")
		if s := c.Stats(); s.Leading || s.Reconciles != 0 || o.instance() != "" {
			t.Errorf("it leads: %v, %d reconciles, instance %q", s.Leading, s.Reconciles, o.instance())
		}
		_, err := o.kv("sites-status").PutString(t.Context(), "_nagi.instance", o.id)
		must(t, err)
		o.swept(c)
		isHealthy(t, c)
	})
}

func TestALostStatusBucketIsTakenOverByOption(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		o := newOrphaned(t)
		c := o.controller(WithInstance(o.id))
		o.run(c)
		o.swept(c)
	})
}

// TestAnInstallationBesideAnotherGetsAnIDOfItsOwn, and leaves what it finds alone.
func TestAnInstallationBesideAnotherGetsAnIDOfItsOwn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		o := newOrphaned(t)
		c := o.controller(WithInstance("second"))
		o.run(c)
		must(t, o.sites.Create(t.Context(), newSite("own", "")))
		eventuallyReason(t, o.sites, "own", entity.ReasonSynced)
		natstest.Eventually(t, "a sweep has ended", func() bool { return c.Stats().Sweeps > 0 })
		if n := count(t, o.pages); n != 6 || c.Stats().Foreign == 0 {
			t.Errorf("%d pages, %d foreign encounters", n, c.Stats().Foreign)
		}
		again := o.controller(WithInstance("third"))
		err := again.Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", "second")) {
			t.Errorf("with another id Run returned %v", err)
		}
	})
}

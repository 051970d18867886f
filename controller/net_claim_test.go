package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// instance is the id of this installation that the bucket keeps; "" if it keeps none.
func (w *world) instance() string {
	w.t.Helper()
	entry, err := w.kv("sites-status").Get(w.t.Context(), "_nagi.instance")
	if err != nil {
		return ""
	}
	return string(entry.Value())
}

// TestAnEmptyInstanceIsNone: a key that somebody emptied by hand does not make an installation without an id, whose
// secondaries nobody could tell from those of others.
func TestAnEmptyInstanceIsNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		_, err := w.kv("sites-status").Put(t.Context(), "_nagi.instance", nil)
		must(t, err)
		c, err := New("sites", sites, (&calls{}).reconciler(nil))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		if c.Instance() == "" || c.Instance() != w.instance() {
			t.Errorf("the instance is %q, and %q in the bucket", c.Instance(), w.instance())
		}
	})
}

// TestAClaimRemovedAtTheEndOfATermIsMadeInTheNext: somebody removes the id of this installation, and the leader cannot
// write it again before its term ends. It does so in its next term, with the same id.
func TestAClaimRemovedAtTheEndOfATermIsMadeInTheNext(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		behind, relay := w.behindRelay()
		c, err := New("sites", behind.sites(), (&calls{}).reconciler(nil), WithLeaseTiming(LeaseTiming{
			Duration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond,
		}))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		before := w.instance()
		if before == "" {
			t.Fatal("no instance is kept")
		}
		relay.muteAnswers()
		must(t, w.purge(t.Context(), "sites-status", "_nagi.instance"))
		natstest.Eventually(t, "the term ends", func() bool { return !c.Stats().Leading })
		ended := c.Stats().Terms // no term begins while no answer comes
		relay.mute("")
		natstest.Eventually(t, "the next term begins", func() bool {
			s := c.Stats()
			return s.Leading && s.Terms > ended
		})
		natstest.Eventually(t, "the instance is kept again", func() bool { return w.instance() != "" })
		if after := w.instance(); after != before || c.Instance() != before {
			t.Errorf("the instance was %q; the bucket now has %q, the controller %q", before, after, c.Instance())
		}
	})
}

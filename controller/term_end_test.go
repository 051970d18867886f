package controller

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestWhatTheEndOfATermWaitsForIsDegradedSoon: a callback that does not return. Nobody led for twenty seconds, and
// nothing said so.
func TestWhatTheEndOfATermWaitsForIsDegradedSoon(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		let, called := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		c, err := New("sites", sites, (&calls{}).reconciler(nil), slowRenewal, WithOnResult(func(r ReconcileResult) {
			if once.CompareAndSwap(false, true) {
				close(called)
				<-let
			}
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		receive(t, "the callback is called", called)
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "the term ends", func() bool { return !c.Stats().Leading })
		time.Sleep(5 * time.Second)
		if err := c.Stats().Degraded["end of the term"]; err == nil || !strings.Contains(err.Error(), `"home"`) {
			t.Errorf("degraded: %v, want the key", err)
		}
		w.leaseTo("", time.Second)
		close(let)
		natstest.Eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms == 2 })
		natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
	})
}

// TestTheEndOfATermMendsNothing: the brake goes on holding, which the next leader tells. The log said that it works
// again.
func TestTheEndOfATermMendsNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		m.emptied("sites")
		m.holdsAll()
		m.r.halt()
		w := m.away()
		var lines logLines
		c, err := New("sites", w.client("Site", "sites", quickCompare), (&calls{}).reconciler(nil), Owns(w.pages()))
		must(t, err)
		r := w.run(logging{c, lines.logger()})
		natstest.Eventually(t, "the brake is degraded", func() bool { return c.Stats().Degraded["brake"] != nil })
		r.halt()
		for _, line := range lines.with("Source works again") {
			t.Errorf("the log says %v", line)
		}
		if c.Stats().Degraded["brake"] != nil {
			t.Error("it is degraded here still")
		}
	})
}

// TestNothingWorksAgainWhileTheServerIsAway: the term that ends, and then the controller, take off what they reported,
// and nobody reads that it is mended.
func TestNothingWorksAgainWhileTheServerIsAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var lines logLines
		c, err := New("sites", w.sites(), (&calls{}).reconciler(nil))
		must(t, err)
		r := w.run(logging{c, lines.logger()})
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.server.Stop()
		time.Sleep(10 * time.Minute) // the leader looks at its claim each minute
		r.halt()
		if len(lines.with("The connection to NATS is down")) != 1 {
			t.Error("nothing was told")
		}
		for _, line := range lines.with("Source works again") {
			t.Errorf("the log says %v", line)
		}
		for _, line := range lines.with("The connection to NATS works again") {
			t.Errorf("the log says %v", line)
		}
	})
}

// TestALeaseWonAndLostIsAnEvent about the controller: once in each term, and not when it stops.
func TestALeaseWonAndLostIsAnEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var told events
		c, err := New("sites", w.sites(), (&calls{}).reconciler(nil), slowRenewal, WithEventRecorder(&told))
		must(t, err)
		r := w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		w.leaseTo("another", 5*time.Minute)
		natstest.Eventually(t, "that is told", func() bool { return len(told.with("LeaseLost")) == 1 })
		w.leaseTo("", time.Second)
		natstest.Eventually(t, "it leads again", func() bool { s := c.Stats(); return s.Leading && s.Terms == 2 })
		r.halt()
		won, lost := told.with("LeaseWon"), told.with("LeaseLost")
		if len(won) != 2 || len(lost) != 1 || won[0] != won[1] {
			t.Fatalf("won %v, lost %v", won, lost)
		}
		if e := lost[0]; e.kind != "Controller" || e.object != "sites" || e.eventType != "Warning" ||
			!strings.Contains(e.message, `lease taken by "another"`) {
			t.Errorf("lost: %+v", e)
		}
	})
}

// butLease is a recorder that leaves out who holds the lease, for tests of other events.
type butLease struct{ EventRecorder }

func (b butLease) Event(object runtime.Object, eventtype, reason, message string) {
	if reason != "LeaseWon" && reason != "LeaseLost" {
		b.EventRecorder.Event(object, eventtype, reason, message)
	}
}

// blocking is a recorder whose Event does not return until it is let go.
type blocking chan struct{}

func (b blocking) Event(runtime.Object, string, string, string) { <-b }

// TestWorkDoesNotWaitForTheRecorder that hangs in the event of a lease won. It shows as a callback that hangs.
func TestWorkDoesNotWaitForTheRecorder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		recorder := make(blocking)
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithEventRecorder(recorder), WithStuckAfter(time.Second))
		must(t, err)
		w.run(c)
		t.Cleanup(func() { close(recorder) })
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		natstest.Eventually(t, "it is degraded", func() bool {
			for _, reason := range c.Stats().Degraded {
				if strings.Contains(reason.Error(), "WithEventRecorder") {
					return true
				}
			}
			return false
		})
	})
}

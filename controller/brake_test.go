package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/tools/record"
)

// many is enough for a mass delete.
const many = 20

// massed is a controller with many sites, of which each owns one page.
type massed struct {
	*world
	sites *entity.Client[*site]
	pages *entity.Client[*page]
	c     *Controller[*site]
	r     *running
	seen  *calls
	told  *toldOf[BrakeState]

	interval time.Duration // of the resync
}

// massed starts the controller; sites are made by whoever calls first.
func (w *world) massed(opts ...Option) *massed {
	w.t.Helper()
	m := &massed{world: w, sites: w.client("Site", "sites", quickCompare, onDisk),
		pages: w.client("Page", "pages", quickCompare, onDisk),
		seen:  &calls{}, told: &toldOf[BrakeState]{}}
	opts = append([]Option{Owns(m.pages), WithOnBrake(m.told.add), WithLeaseTiming(longLease), WithWorkers(4)},
		opts...)
	c, err := New("sites", m.sites, m.seen.reconciler(onePage(m.sites, m.pages)), opts...)
	must(w.t, err)
	o, err := applyOptions(opts)
	must(w.t, err)
	m.c, m.r, m.interval = c, w.run(c), o.ResyncInterval
	return m
}

// filled also makes the sites, and waits until all are reconciled.
func (w *world) filled(opts ...Option) *massed {
	w.t.Helper()
	m := w.massed(opts...)
	w.make(m.sites, many)
	w.settled(m.c, m.sites, many)
	return m
}

// restarted stops the controller, does what is done while it is down, and starts another over a connection of its own.
func (m *massed) restarted(meanwhile func(), opts ...Option) *massed {
	m.t.Helper()
	m.r.halt()
	meanwhile()
	return m.away().massed(opts...)
}

// holds waits for the engaged brake, and checks that nothing is deleted under it although time goes by.
func (m *massed) holds(held int) {
	m.t.Helper()
	natstest.Eventually(m.t, "the brake is engaged and holds all", func() bool {
		state := m.c.Stats().Brake
		return state.Engaged && state.Held+state.Swept == held
	})
	natstest.Eventually(m.t, "the state is kept", func() bool { // and was told of before
		entry, err := m.kv("sites-status").Get(m.t.Context(), "_nagi.brake")
		var kept BrakeState
		return err == nil && json.Unmarshal(entry.Value(), &kept) == nil && kept.Engaged
	})
	sweeps := m.c.Stats().Sweeps
	m.c.engine.EnqueueOwner(siteName(0)) // its page has changed
	m.c.Enqueue(siteName(1), OperationDelete)
	natstest.Eventually(m.t, "the queue is worked off", func() bool {
		s := m.c.Stats()
		return s.Ready == [3]int{} && s.Running == 0
	})
	if interval := m.interval; 0 < interval && interval < time.Second {
		natstest.Eventually(m.t, "sweeps go by", func() bool { return m.c.Stats().Sweeps > sweeps+3 })
	}
	if n := count(m.t, m.pages); n != many {
		m.t.Errorf("%d pages are left of %d under the brake", n, many)
	}
	if stats := m.c.Stats(); stats.TornDown != 0 || stats.Cascaded != 0 || !stats.Brake.Engaged {
		m.t.Errorf("under the brake: torn down %d, cascaded %d, %+v", stats.TornDown, stats.Cascaded, stats.Brake)
	}
}

// tornDown waits until all went.
func (m *massed) tornDown() {
	m.t.Helper()
	natstest.Eventually(m.t, "all records are removed", func() bool {
		for _, held := range m.sites.Records().All() {
			if held.Anchor() {
				return false
			}
		}
		return true
	})
	natstest.Eventually(m.t, "all pages are gone", func() bool { return count(m.t, m.pages) == 0 })
	natstest.Eventually(m.t, "the brake is off", func() bool { return !m.c.Stats().Brake.Engaged })
}

// recreate deletes the bucket and makes it anew with the first of the sites.
func (m *massed) recreate(sites int) {
	m.t.Helper()
	must(m.t, m.js.DeleteStream(m.t.Context(), "KV_sites"))
	fresh := m.away().client("Site", "sites", onDisk)
	m.make(fresh, sites)
	for range 2 * many { // more messages than the old one had: only its creation time tells
		must(m.t, fresh.Patch(m.t.Context(), siteName(0), []byte(`{"spec":{"title":"again"}}`)))
		must(m.t, fresh.Patch(m.t.Context(), siteName(0), []byte(`{"spec":{"title":"and again"}}`)))
	}
}

// TestTheBrakeHoldsWhenTheBucketIsAnother even for few missing documents: three of twenty.
func TestTheBrakeHoldsWhenTheBucketIsAnother(t *testing.T) {
	t.Run("while it runs", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			m := newWorld(t).filled()
			m.recreate(many - 3)
			m.holds(3)
			must(t, m.c.ReleaseBrake(t.Context()))
			natstest.Eventually(t, "the missing ones are torn down", func() bool { return count(t, m.pages) == many-3 })
		})
	})
	t.Run("while it is down", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			m := newWorld(t).filled()
			m = m.restarted(func() { m.recreate(many - 3) })
			m.holds(3)
			must(t, m.c.ReleaseBrake(t.Context()))
			natstest.Eventually(t, "the missing ones are torn down", func() bool { return count(t, m.pages) == many-3 })
		})
	})
	t.Run("after a crash soon after the first start", func(t *testing.T) {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			dying := w.away()
			m := dying.filled(WithGracePeriod(0))
			dying.js.Conn().Close() // keeps nothing at its end
			m.r.halt()
			m = w.away().massed()
			m.r.halt()
			m.recreate(many - 3)
			m = w.away().massed()
			m.holds(3)
		})
	})
}

func TestTheBrakeHoldsDeletesOwedAtStart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		m = m.restarted(func() {
			for i := range many - 4 {
				must(t, m.sites.Delete(t.Context(), siteName(i)))
			}
		})
		m.holds(many - 4)
		must(t, m.c.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "they are torn down", func() bool { return count(t, m.pages) == 4 })
	})
}

// orphanedPages makes pages of sites that somebody deleted while no controller ran, and that have no record.
func (w *world) orphanedPages(pages *entity.Client[*page], n int) {
	w.t.Helper()
	sites := w.sites()
	for i := range n {
		were(w.t, sites, siteName(i))
		must(w.t, pages.Create(w.t.Context(), w.ownedPage(siteName(i), siteName(i))))
	}
}

// operatorReleases puts what the kept state of the brake says to the release key.
func (m *massed) operatorReleases() {
	m.t.Helper()
	var kept BrakeState
	natstest.Eventually(m.t, "the state is kept", func() bool {
		entry, err := m.kv("sites-status").Get(m.t.Context(), "_nagi.brake")
		return err == nil && json.Unmarshal(entry.Value(), &kept) == nil && kept.Engaged
	})
	m.put("sites-status", "_nagi.release", fmt.Sprintf("%s %d", kept.Engagement, kept.Held+kept.Swept+kept.Pruned))
}

func TestTheBrakeHoldsTheSweep(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.installed()
		w.orphanedPages(w.client("Page", "pages", onDisk), many)
		m := w.massed(WithResyncInterval(time.Second))
		m.holds(many)
		m = m.restarted(func() {}, WithResyncInterval(time.Second))
		m.holds(many)
		must(t, m.c.ReleaseBrake(t.Context()))
		m.tornDown()
	})
}

// vanishing removes documents without a trace: their deletes are inferred.
func (w *world) vanishing(from, to int) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	for i := from; i < to; i++ {
		must(w.t, stream.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV.sites."+siteName(i))))
	}
}

// TestTheBrakeHoldsAcrossRestarts until an operator's put to the release key.
func TestTheBrakeHoldsAcrossRestarts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		m.emptied("sites")
		m.holds(many)
		for range 2 {
			m = m.restarted(func() {})
			m.holds(many)
		}
		m.operatorReleases()
		m.tornDown()
		if n := m.seen.with(siteName(3), OperationDelete); n == 0 {
			t.Error("the reconciler was not told Delete after the release")
		}
		natstest.Eventually(t, "the release is used up", func() bool {
			_, err := m.kv("sites-status").Get(t.Context(), "_nagi.release")
			return err != nil
		})
	})
}

// TestEvidencedMassDeletesPass, as deletes and as purges, because somebody wrote each of them.
func TestEvidencedMassDeletesPass(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		for i := range many {
			var opts []entity.DeleteOption
			if i%2 == 0 {
				opts = append(opts, entity.Purge())
			}
			must(t, m.sites.Delete(t.Context(), siteName(i), opts...))
		}
		m.tornDown()
		if n := m.c.Stats().BrakeEngaged; n != 0 {
			t.Errorf("the brake engaged %d times", n)
		}
	})
}

// TestTheBrakeIsLoud: the callback, Stats, an event and the status bucket tell that it engaged, why, and that it was
// released.
func TestTheBrakeIsLoud(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		events := record.NewFakeRecorder(100)
		m := newWorld(t).filled(WithEventRecorder(butLease{events}), WithBrakeWindow(time.Minute))
		m.emptied("sites")
		m.holds(many)
		state := m.c.Stats().Brake
		if !strings.HasSuffix(state.Reason, " within 1m0s") || state.Since.IsZero() || m.c.Stats().BrakeEngaged != 1 {
			t.Errorf("Stats: %+v", m.c.Stats())
		}
		if event := <-events.Events; !strings.Contains(event, "BrakeEngaged") || !strings.Contains(event, "Warning") {
			t.Errorf("event %q", event)
		}
		natstest.Eventually(t, "the status bucket tells", func() bool {
			entry, err := m.kv("sites-status").Get(t.Context(), "_nagi.brake")
			if err != nil {
				return false
			}
			var kept BrakeState
			return json.Unmarshal(entry.Value(), &kept) == nil && kept.Engaged && kept.Reason == state.Reason
		})
		must(t, m.c.ReleaseBrake(t.Context()))
		if event := <-events.Events; !strings.Contains(event, "BrakeReleased") {
			t.Errorf("event %q", event)
		}
		m.tornDown()
		told := m.told.all()
		if len(told) != 2 || !told[0].Engaged || told[0].Reason == "" || told[1].Engaged {
			t.Errorf("told %+v, want engaged and released", told)
		}
	})
}

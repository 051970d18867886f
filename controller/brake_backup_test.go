package controller

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// snapshotOf a bucket: one of today, of which a restore makes a stream with a new time of creation, or an old one,
// which keeps it.
func (w *world) snapshotOf(bucket, format string) *natstest.Snapshot {
	w.t.Helper()
	var snapshot *natstest.Snapshot
	var err error
	if format == "old" {
		snapshot, err = w.server.TakeOldSnapshot(w.t.Context(), w.js.Conn(), "KV_"+bucket)
	} else {
		snapshot, err = natstest.TakeSnapshot(w.t.Context(), w.js.Conn(), "KV_"+bucket)
	}
	must(w.t, err)
	natstest.Eventually(w.t, "the server answers", func() bool {
		_, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
		return err == nil
	})
	return snapshot
}

// TestTheBrakeHoldsWhenTheBucketWasRestoredThroughTheAPI: the stream is deleted and restored from a snapshot, in which
// three of twenty documents are missing; few, and all the same nothing that they own goes before the release. So it is
// where the bucket was written past what the controller had seen of it, before it looks.
func TestTheBrakeHoldsWhenTheBucketWasRestoredThroughTheAPI(t *testing.T) {
	writePast := func(w *world) {
		before := w.lastSequence("sites")
		for i := range many - 3 {
			w.put("sites", siteName(i), `{"spec":{"title":"later"}}`)
		}
		if before+3 >= w.lastSequence("sites") {
			w.t.Fatal("this is not past where it was")
		}
	}
	for _, test := range []struct {
		format, when string
		write        func(*world)
	}{
		{"today's", "while it runs", func(*world) {}},
		{"today's", "while it is down", writePast},
		{"old", "while it runs", writePast},
		{"old", "while it is down", func(*world) {}},
	} {
		t.Run(test.format+" snapshot, "+test.when, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) { restoredUnderTheBrake(t, test.format, test.when, test.write) })
		})
	}
}

// restoredUnderTheBrake restores the bucket of a controller and writes to it before the controller can see it.
func restoredUnderTheBrake(t *testing.T, format, when string, write func(*world)) {
	t.Helper()
	admin := newWorld(t)
	w := admin.away()
	proxy := natstest.StartProxy(t, admin.server.URL())
	_, w.js = natstest.Connect(t, proxy.URL())
	// A lease that outlasts the outage: another term would decide anew, and this is about the first decision.
	m := w.massed(WithLeaseTiming(LeaseTiming{Duration: 30 * time.Second, RenewDeadline: 20 * time.Second,
		RetryPeriod: time.Second}))
	w.make(m.sites, many-3)
	w.settled(m.c, m.sites, many-3)
	snapshot := admin.snapshotOf("sites", format)
	natstest.Eventually(t, "it is connected", w.js.Conn().IsConnected)
	w.make(m.sites, many)
	w.settled(m.c, m.sites, many)
	restore := func() {
		must(t, admin.js.DeleteStream(t.Context(), "KV_sites"))
		must(t, snapshot.Restore(t.Context(), admin.js.Conn()))
		write(admin)
	}
	if when == "while it is down" {
		m = m.restarted(restore)
	} else {
		proxy.Refuse()
		restore()
		proxy.Resume()
	}
	m.holds(3)
	must(t, m.c.ReleaseBrake(t.Context()))
	natstest.Eventually(t, "the missing ones are torn down", func() bool { return count(t, m.pages) == many-3 })
	for i := range many {
		torn := noRecord(t, m.sites, siteName(i))
		if i < many-3 && torn() {
			t.Errorf("the record of %s is gone, which is in the snapshot", siteName(i))
		} else if i >= many-3 {
			natstest.Eventually(t, "the record of "+siteName(i)+" is removed", torn)
		}
	}
}

// TestNothingYoungerGoesWhenDocumentsAndRecordsWentBackTogether, and what the primaries own did not: nothing in NATS
// knows any more of the eight sites that are younger than the backup, but for their pages. Eight of twenty are few.
// With proofs the pages are evidence, and the brake holds. Without, who may write pages could have made them up: they
// are reported.
func TestNothingYoungerGoesWhenDocumentsAndRecordsWentBackTogether(t *testing.T) {
	for format, past := range map[string]string{"today's": "where it was", "old": "written past where it was"} {
		for marks, opts := range map[string][]Option{
			"plain": {WithResyncInterval(time.Minute)}, "proven": {WithOwnerProof(proofSecret('a'))},
		} {
			t.Run(format+" snapshot, "+past+", "+marks, func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					m := newWorld(t).wentBackTogether(format, past == "where it was", opts...)
					if marks == "proven" {
						m.sweepsTheYoungerAfterARelease(opts...)
					} else {
						m.reportsTheYoungerAndLeavesThem()
					}
				})
			})
		}
	}
}

func (m *massed) sweepsTheYoungerAfterARelease(opts ...Option) {
	t := m.t
	m.holds(younger)
	must(t, m.c.ReleaseBrake(t.Context()))
	natstest.Eventually(t, "what the younger ones owned is swept", func() bool {
		return count(t, m.pages) == many-younger && !m.c.Stats().Brake.Engaged
	})
	m.r.halt()
	m = m.away().massed(opts...) // which finds the pages of the others as they were stamped before
	m.settled(m.c, m.sites, many-younger)
	if s := m.c.Stats(); s.Brake.Engaged || count(t, m.pages) != many-younger {
		t.Errorf("after the release: %+v, %d pages", s.Brake, count(t, m.pages))
	}
}

func (m *massed) reportsTheYoungerAndLeavesThem() {
	t := m.t
	m.reportsAStreamThatMayHaveGoneBack()
	for i := many - younger; i < many; i++ {
		must(t, m.sites.Create(t.Context(), newSite(siteName(i), "is back")))
	}
	m.settled(m.c, m.sites, many)
	if s := m.c.Stats(); s.BrakeEngaged > 0 || s.Cascaded > 0 || count(t, m.pages) != many {
		t.Errorf("%d deleted, %d pages, %+v", s.Cascaded, count(t, m.pages), s.Brake)
	}
}

// younger are the sites that are younger than the backup.
const younger = 8

// wentBackTogether is a controller that starts when documents and records were restored.
func (w *world) wentBackTogether(format string, whereItWas bool, opts ...Option) *massed {
	w.t.Helper()
	t := w.t
	m := w.away().massed(opts...)
	m.make(m.sites, many-younger)
	m.settled(m.c, m.sites, many-younger)
	m.r.halt()
	documents, records := w.snapshotOf("sites", format), w.snapshotOf("sites-status", format)
	m = w.away().massed(opts...)
	m.make(m.sites, many)
	m.settled(m.c, m.sites, many)
	return m.restarted(func() {
		for bucket, snapshot := range map[string]*natstest.Snapshot{"sites": documents, "sites-status": records} {
			must(t, w.js.DeleteStream(t.Context(), "KV_"+bucket))
			must(t, snapshot.Restore(t.Context(), w.js.Conn()))
		}
		for i := 0; !whereItWas && i < many-younger; i++ {
			w.put("sites", siteName(i), `{"spec":{"title":"later"}}`)
		}
	}, opts...)
}

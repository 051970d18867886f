package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// putWithTTL writes a site whose writer says how long it stays; "" says nothing.
func (w *world) putWithTTL(i int, ttl string) {
	w.t.Helper()
	msg := &nats.Msg{Subject: "$KV.sites." + siteName(i), Data: []byte(documentOf(i)), Header: nats.Header{}}
	if ttl != "" {
		msg.Header.Set(jetstream.MsgTTLHeader, ttl)
	}
	_, err := w.js.PublishMsg(w.t.Context(), msg)
	must(w.t, err)
}

// ttlOf is the TTL that the message of a site carries.
func (w *world) ttlOf(i int) string {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	msg, err := stream.GetLastMsgForSubject(w.t.Context(), "$KV.sites."+siteName(i))
	must(w.t, err)
	return msg.Header.Get(jetstream.MsgTTLHeader)
}

// TestARestoredDocumentKeepsItsTTL: it goes when it would have gone, and what was to stay for ever does. So it is after
// a restart, when the records alone know of it, and when it is restored again.
func TestARestoredDocumentKeepsItsTTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const n = 12
		ttls := []string{"1h", "7200", "never", "90m30s"} // of the first sites
		ends := map[int]time.Duration{0: time.Hour, 1: 2 * time.Hour, 3: 90*time.Minute + 30*time.Second}
		m := newWorld(t).bare(withRollup)
		began := time.Now()
		for i := range n {
			ttl := ""
			if i < len(ttls) {
				ttl = ttls[i]
			}
			m.putWithTTL(i, ttl)
		}
		m.reconciled(n)
		for _, round := range []string{"at once", "after a restart", "again"} {
			m.emptied("sites")
			m.holdsExactly(n)
			if round == "after a restart" {
				m.r.halt()
				m = m.away().bare(withRollup)
				m.holdsExactly(n)
			}
			if restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n); restored != n || err != nil {
				t.Fatalf("%s: %d restored, error %v", round, restored, err)
			}
			past := time.Since(began)
			for i := range n {
				got := m.ttlOf(i)
				if end, limited := ends[i]; limited {
					seconds, err := strconv.Atoi(got)
					left := time.Duration(seconds) * time.Second
					if err != nil || left < end-past-time.Second || left > end {
						t.Errorf("%s: %s has the TTL %q, want what is left of %v", round, siteName(i), got, end)
					}
					continue
				}
				if i < len(ttls) && got != ttls[i] || i >= len(ttls) && got != "" {
					t.Errorf("%s: %s has the TTL %q", round, siteName(i), got)
				}
			}
			natstest.Eventually(t, "the brake goes off by itself", func() bool { return !m.c.Stats().Brake.Engaged })
			m.reconciled(n)
			natstest.Eventually(t, "they are anchored as they are now", func() bool {
				for i := range n {
					entry, err := m.kv("sites").Get(t.Context(), siteName(i))
					must(t, err)
					if rec, _ := m.sites.Records().Cached(siteName(i)); rec.ObservedRevision != entry.Revision() {
						return false
					}
				}
				return true
			})
		}
	})
}

// emptiedWithTTL is emptiedOf with a TTL of one of the sites.
func (w *world) emptiedWithTTL(n, ends int, ttl string) *bare {
	w.t.Helper()
	m := w.bare()
	for i := range n {
		m.putWithTTL(i, map[bool]string{true: ttl}[i == ends])
	}
	m.reconciled(n)
	m.emptied("sites")
	m.holdsExactly(n)
	return m
}

// TestADocumentWhoseTTLHasEndedIsNotRestored: it would be gone by now, too, if it had not vanished. It is told, and
// held until a release.
func TestADocumentWhoseTTLHasEndedIsNotRestored(t *testing.T) {
	inEachBucket(t, func(t *testing.T, w *world) {
		const n, ends = 12, 5
		m := w.emptiedWithTTL(n, ends, "8s")
		natstest.Eventually(t, "its time is over", func() bool {
			_, cannot := m.listed()
			return strings.Contains(cannot[siteName(ends)], "TTL")
		})
		m.refused(m.engagement(), n, fmt.Sprintf("%d documents of Site can be restored, and 1 cannot", n-1))
		if restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n-1); restored != n-1 || err != nil {
			t.Errorf("%d restored, error %v", restored, err)
		}
		if !m.isGone(siteName(ends)) {
			t.Error("it is back")
		}
		m.holdsExactly(1)
		must(t, m.c.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "it is torn down", func() bool { return m.c.Stats().TornDown == 1 })
	})
}

// TestARestoredDocumentExpiresAsItWouldHave, and that is a delete as any other.
func TestARestoredDocumentExpiresAsItWouldHave(t *testing.T) {
	inEachBucket(t, func(t *testing.T, w *world) {
		const n, ends = 12, 5
		m := w.emptiedWithTTL(n, ends, "20s")
		if restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n); restored != n || err != nil {
			t.Fatalf("%d restored, error %v", restored, err)
		}
		natstest.Eventually(t, "it is torn down", func() bool { return m.c.Stats().TornDown == 1 })
		if m.count() != n-1 || !m.isGone(siteName(ends)) {
			t.Errorf("%d are left", m.count())
		}
	})
}

// TestARecordOfAnOlderVersionLearnsOfTheTTL: an older replica that leads writes records without it, and the next one
// adds it.
func TestARecordOfAnOlderVersionLearnsOfTheTTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.bare()
		m.putWithTTL(0, "1h")
		m.reconciled(1)
		m.r.halt()
		record := m.raw("sites-status", siteName(0))
		if record["documentExpires"] == nil {
			t.Fatalf("the record does not have it: %v", record)
		}
		was := record["documentExpires"]
		delete(record, "documentExpires")
		older, err := json.Marshal(record)
		must(t, err)
		_, err = m.kv("sites-status").Put(t.Context(), siteName(0), older)
		must(t, err)
		m = w.away().bare()
		natstest.Eventually(t, "the record has it again", func() bool {
			return m.raw("sites-status", siteName(0))["documentExpires"] == was
		})
		if rec, err := m.sites.Record(t.Context(), siteName(0)); err != nil || len(rec.LastDocument) == 0 ||
			rec.Phase() != entity.PhaseSynced {
			t.Errorf("the record is %+v, error %v", rec, err)
		}
	})
}

// TestARecordTellsTheTTLOfItsRevision, and of no other.
func TestARecordTellsTheTTLOfItsRevision(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).bare()
		for _, ttl := range []string{"1h", "", "never", "90", "never", "", "2h"} {
			m.putWithTTL(0, ttl)
			stream, err := m.js.Stream(t.Context(), "KV_sites")
			must(t, err)
			msg, err := stream.GetLastMsgForSubject(t.Context(), "$KV.sites."+siteName(0))
			must(t, err)
			want := map[string]string{
				"": "", "never": entity.ExpiresNever, "1h": entity.StreamIdentity(msg.Time.Add(time.Hour)),
				"2h": entity.StreamIdentity(msg.Time.Add(2 * time.Hour)),
				"90": entity.StreamIdentity(msg.Time.Add(90 * time.Second)),
			}[ttl]
			must(t, entity.WaitReconciled(t.Context(), m.sites, siteName(0), msg.Sequence))
			rec, err := m.sites.Record(t.Context(), siteName(0))
			must(t, err)
			if rec.DocumentRevision != msg.Sequence || rec.DocumentExpires != want {
				t.Errorf("TTL %q: the record of revision %d says %q, want %q of %d",
					ttl, rec.DocumentRevision, rec.DocumentExpires, want, msg.Sequence)
			}
		}
	})
}

// TestWhatGrewTooOldIsRestored, when the age limit that was a mistake is off, over the markers that the server has left
// of it. What somebody deleted since is not, although its own marker grew too old, too.
func TestWhatGrewTooOldIsRestored(t *testing.T) {
	inEachBucket(t, func(t *testing.T, w *world) {
		const n, deleted = 6, 2
		m := w.bare()
		w.putMany(n, siteName, documentOf)
		m.reconciled(n)
		w.limitAge(time.Second)
		m.holdsExactly(n)
		must(t, m.kv("sites").Delete(t.Context(), siteName(deleted)))
		left := n - 1
		if marked := w.marksExpiry(); marked {
			natstest.Eventually(t, "the marker of the delete has expired", func() bool { return w.isExpired(deleted) })
			w.limitAge(0)
		} else {
			w.limitAge(0)
			must(t, m.kv("sites").Delete(t.Context(), siteName(deleted))) // else nothing is left that tells
		}
		can, cannot := m.listed()
		if len(can) != left || cannot[siteName(deleted)] == "" {
			t.Errorf("listed %v and %v", can, cannot)
		}
		if restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), left); restored != left || err != nil {
			t.Fatalf("%d restored, error %v", restored, err)
		}
		for i := range n {
			if gone := i == deleted; m.isGone(siteName(i)) != gone {
				t.Errorf("%s is gone: %v", siteName(i), !gone)
			}
		}
		m.holdsExactly(1)
	})
}

// TestWhatGrewTooOldWhileNobodyWatchedIsRestored: the leader has told of the markers.
func TestWhatGrewTooOldWhileNobodyWatchedIsRestored(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const n = 12
		w := newWorld(t)
		m := w.bare(withRollup)
		w.putMany(n, siteName, documentOf)
		m.reconciled(n)
		m.r.halt()
		w.limitAge(time.Second)
		natstest.Eventually(t, "they expire", func() bool { return m.count() == 0 })
		m = w.away().bare(withRollup)
		m.holdsExactly(n)
		w.limitAge(0)
		if restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n); restored != n || err != nil {
			t.Fatalf("%d restored, error %v", restored, err)
		}
		natstest.Eventually(t, "the brake goes off by itself", func() bool { return !m.c.Stats().Brake.Engaged })
	})
}

// marksExpiry reports whether the server leaves markers of what expires.
func (w *world) marksExpiry() bool {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	return stream.CachedInfo().Config.SubjectDeleteMarkerTTL > 0
}

// isExpired reports whether the server has left a marker that a site expired, after its own.
func (w *world) isExpired(i int) bool {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	msg, err := stream.GetLastMsgForSubject(w.t.Context(), "$KV.sites."+siteName(i))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false
	}
	must(w.t, err)
	return msg.Header.Get(jetstream.MarkerReasonHeader) == "MaxAge"
}

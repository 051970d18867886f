package controller

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// brokenBefore starts a controller whose many sites stopped to decode while none ran, so that its cache has no version
// of them.
func (w *world) brokenBefore() *massed {
	w.t.Helper()
	m := w.filled()
	m = m.restarted(func() {
		for i := range many {
			m.put("sites", siteName(i), `{"spec":`)
		}
	})
	eventually(w.t, "all are invalid", func() bool { return m.c.Stats().Invalid >= many && m.c.Stats().Leading })
	return m
}

// TestEvidencedMassDeletesOfInvalidDocumentsPass, because somebody wrote each of them.
func TestEvidencedMassDeletesOfInvalidDocumentsPass(t *testing.T) {
	t.Parallel()
	m := newWorld(t).brokenBefore()
	for i := range many {
		must(t, m.kv("sites").Delete(t.Context(), siteName(i)))
	}
	m.tornDown()
	if n := m.c.Stats().BrakeEngaged; n != 0 {
		t.Errorf("the brake engaged %d times", n)
	}
}

// TestTheBrakeHoldsInvalidDocumentsThatVanish without a marker.
func TestTheBrakeHoldsInvalidDocumentsThatVanish(t *testing.T) {
	t.Parallel()
	m := newWorld(t).brokenBefore()
	stream, err := m.js.Stream(t.Context(), "KV_sites")
	must(t, err)
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.sites.>")))
	m.holds(many)
}

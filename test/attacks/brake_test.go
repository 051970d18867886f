package attacks

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestNobodyReleasesTheBrakeByAccidentOrByForce: with answers of the server, with messages that it forwards, or, for
// who may write the key, with a release of something else.
func TestNobodyReleasesTheBrakeByAccidentOrByForce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.engage()
		const release, taken = "$KV.sites-status._nagi.release", "$JS.API.STREAM.MSG.GET.KV_sites"
		for _, r := range roles(t) {
			for name, do := range map[string]func(a *attempt){
				"an answer": func(a *attempt) { a.send(r.subject, release, r.payload) },
				"a message": func(a *attempt) { a.send(taken, release, `{"last_by_subj":"$KV.sites.ns1.s0"}`) },
				"a word":    func(a *attempt) { a.send(release, "", "now") },
				"a release of another time": func(a *attempt) {
					a.send(release, "", `{"at":"2026-01-01T00:00:00Z","by":"ReleaseBrake"}`)
					a.send(release, "", "another 100")
					a.send(release, "", "")
				},
			} {
				js, _ := connect(t, w.server, r.name, r.password)
				do(&attempt{world: w, role: r, js: js})
				must(t, js.Conn().Flush())
				w.settle()
				_, leader := w.leading()
				if left := len(w.keys("pages", "ns2.")); left != more+each || leader == nil ||
					!leader.Stats().Brake.Engaged {
					t.Fatalf("%s with %s: %d pages are left of %d; the leader is %v",
						r.name, name, left, more+each, leader)
				}
			}
		}
		w.t = t
		_, leader := w.leading()
		must(t, leader.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "the release that was meant works", func() bool { return len(w.keys("pages", "ns2.")) == 0 })
	})
}

// more sites of ns2 make a mass delete.
const more = 20

// engage has all documents of ns2 vanish while no replica runs.
func (w *world) engage() {
	w.t.Helper()
	for i := range more {
		w.put(fmt.Sprintf("$KV.sites.ns2.more%d", i), `{}`)
	}
	natstest.Eventually(w.t, "they have pages", func() bool { return len(w.keys("pages", "ns2.")) == more+each })
	w.settle()
	w.close()
	w.replicas = nil
	stream, err := w.admin.Stream(w.t.Context(), "KV_sites")
	must(w.t, err)
	for key := range w.keys("sites", "ns2.") {
		must(w.t, purge(w.t.Context(), stream, "$KV.sites."+key))
	}
	w.start()
	w.start()
	natstest.Eventually(w.t, "the brake holds them", func() bool {
		_, leader := w.leading()
		if leader == nil {
			return false
		}
		state := leader.Stats().Brake
		return state.Engaged && state.Held == more+each
	})
}

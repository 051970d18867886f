package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

const neverDecodes = `{"spec":{"title":17`

// TestTheRecordOfWhatWasNeverReconciledGoesWithItsDocument, also where no replica runs when the document is deleted:
// the next start removes it. What owes a teardown is torn down.
func TestTheRecordOfWhatWasNeverReconciledGoesWithItsDocument(t *testing.T) {
	for name, opts := range map[string][]Option{"with sweeps": nil, "without a resync": {WithResyncInterval(0)}} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				c, err := New("sites", sites, onePage(sites, pages), append(opts, Owns(pages))...)
				must(t, err)
				r := w.run(c)
				w.put("sites", "invalid", neverDecodes)
				w.put("sites", "there", neverDecodes)
				w.put("sites", "suspended", `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{}}`)
				must(t, sites.Create(ctx, newSite("owed", "one")))
				eventuallyReason(t, sites, "owed", entity.ReasonSynced)
				w.put("sites", "owed", neverDecodes)
				for key, reason := range map[string]string{
					"invalid": entity.ReasonInvalid, "there": entity.ReasonInvalid, "owed": entity.ReasonInvalid,
					"suspended": entity.ReasonSuspended,
				} {
					eventuallyReason(t, sites, key, reason)
				}
				r.halt()
				for _, key := range []string{"invalid", "suspended", "owed"} {
					must(t, w.kv("sites").Delete(ctx, key))
				}

				var seen calls
				next, err := New("sites", w.sites(), seen.reconciler(nil), append(opts, Owns(w.pages()))...)
				must(t, err)
				w.run(next)
				time.Sleep(time.Minute)
				for _, key := range []string{"invalid", "suspended", "owed"} {
					if !noRecord(t, sites, key)() {
						t.Errorf("%s has a record still: %v\n%s", key, w.raw("sites-status", key), next.Explain(key).Says)
					}
				}
				if noRecord(t, sites, "there")() {
					t.Error("a document that is there has lost its record")
				}
				if seen.with("owed", OperationDelete) != 1 || exists(t, pages, "owed") || next.Stats().TornDown != 1 {
					t.Errorf("what owed a teardown was called for %v; %d torn down", seen.of("owed"), next.Stats().TornDown)
				}
				if n := seen.count("invalid") + seen.count("suspended"); n != 0 {
					t.Errorf("what was never reconciled was called for %d times", n)
				}
			})
		})
	}
}

// TestASweepRemovesARecordWithoutDocument that nothing is owed to, as where another writer put it there. Until then
// Explain does not say that there is none.
func TestASweepRemovesARecordWithoutDocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithResyncInterval(10*time.Minute))
		must(t, err)
		w.run(c)
		time.Sleep(time.Second)
		w.put("sites-status", "alone", `{"schemaVersion":1,"status":{"note":"put by hand"}}`)
		time.Sleep(time.Second)
		if e := c.Explain("alone"); e.State != StateUnknown || !strings.Contains(e.Says, "nothing is owed") ||
			strings.Contains(e.Says, "nor a record") {
			t.Errorf("%s: %s", e.State, e.Says)
		}
		time.Sleep(10 * time.Minute)
		if !noRecord(t, sites, "alone")() {
			t.Errorf("the record is there after a sweep: %s", c.Explain("alone").Says)
		}
	})
}

// TestARecordThatCannotBeReadStaysWithoutDocument: what it owes is not known.
func TestARecordThatCannotBeReadStaysWithoutDocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithResyncInterval(time.Minute))
		must(t, err)
		w.put("sites-status", "good", `{"schemaVersion":1,"status":{"note":"one"}}`)
		w.put("sites", "good", neverDecodes)
		w.run(c)
		eventuallyReason(t, sites, "good", entity.ReasonInvalid)
		w.put("sites-status", "newer", `{"schemaVersion":7}`)
		w.put("sites-status", "good", `{"schemaVersion":7}`)
		time.Sleep(time.Second)
		must(t, w.kv("sites").Delete(t.Context(), "good"))
		time.Sleep(5 * time.Minute)
		for _, key := range []string{"newer", "good"} {
			if w.raw("sites-status", key)["schemaVersion"] != 7. {
				t.Errorf("the record of %s was written", key)
			}
		}
		if err := c.Stats().Degraded["teardown"]; err != nil {
			t.Errorf("nothing is owed, and degraded is: %v", err)
		}
	})
}

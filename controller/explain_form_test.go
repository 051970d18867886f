package controller

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestExplainSaysTheRightFormOfAKey: a namespaced bucket has the key t.e101 in NATS, and t/e101 here.
func TestExplainSaysTheRightFormOfAKey(t *testing.T) {
	for asked, meant := range map[string]string{"t.e101": "t/e101", "t/e101": "t.e101"} {
		t.Run(strings.ReplaceAll(asked, "/", " in "), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites := w.client("Site", "sites", func(c *entity.Config) { c.Namespaced = asked == "t.e101" })
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil))
				must(t, err)
				w.run(c)
				if e := c.Explain(asked); e.State != StateMalformed || !strings.Contains(e.Says, `"`+meant+`"`) ||
					!strings.Contains(e.ToNamespace().Says, `"`+meant+`"`) {
					t.Errorf("%s: %s", e.State, e.Says)
				}
				if e := c.Explain("a b"); e.State != StateMalformed || strings.Contains(e.Says, "ask for") {
					t.Errorf("%s: %s", e.State, e.Says)
				}
			})
		})
	}
}

// TestExplainMentionsWhatOfADocumentIsNotRead: the record has it as a condition, and somebody who looks for the reason
// asks here.
func TestExplainMentionsWhatOfADocumentIsNotRead(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, w := t.Context(), newWorld(t)
		var seen calls
		c, _, _ := w.runningSites(&seen)
		if e := explained(t, c, "home", StateCalm); e.DocumentWarnings != "" {
			t.Errorf("warned of %s", e.DocumentWarnings)
		}
		kv, err := w.js.KeyValue(ctx, "sites")
		must(t, err)
		_, err = kv.Put(ctx, "odd", []byte(`{"spec":{"Title":"x"}}`))
		must(t, err)
		natstest.Eventually(t, "it says so", func() bool {
			e := c.Explain("odd")
			return e.State == StateCalm && strings.Contains(e.DocumentWarnings, "spec.Title") &&
				strings.Contains(e.Says, "spec.Title")
		})
	})
}

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
)

// TestAPlanIsShownBeforeADocumentIsResumed, and what it said has then happened.
func TestAPlanIsShownBeforeADocumentIsResumed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runs(0, []string{"plan", "websites/shop/home"}, "by controller websites:\n  Nothing would change.\n")
		w.put("websites", "shop.new", `{"metadata":{"annotations":{"nagi/suspend":"true"}},`+
			`"spec":{"host":"new.example","pages":1}}`)
		w.settle()
		before := w.pagesThere()
		out := w.runs(4, []string{"plan", "websites/shop/new"}, "  + create Page ", "spec.title: ", "marks of the runtime",
			"1 to create, 1 to update, 0 to delete. Nothing was written.", "Note: its document asks not to be reconciled")
		if strings.Contains(out, "kumori/owner") {
			t.Errorf("marks are shown:\n%s", out)
		}
		if w.pagesThere() != before {
			t.Error("a plan has made a page")
		}
		w.runs(0, []string{"resume", "websites/shop/new"})
		w.settle()
		if w.pagesThere() != before+1 {
			t.Error("what was planned has not come")
		}
		w.runs(1, []string{"plan", "websites/shop/blog"}, "The reconcile would fail: ", "no such domain")
		w.runs(3, []string{"plan", "websites/shop/none"}, "not found")
		r := w.nagi("plan", "websites", "home", "none", "-n", "shop", "-o", "json")
		var plans []struct {
			Key, Controller string
			Changes         []controller.PlanChange
		}
		w.must(json.Unmarshal([]byte(r.out), &plans))
		if r.code != 3 || len(plans) != 1 || plans[0].Key != "shop/home" || plans[0].Changes == nil {
			t.Errorf("code %d: %s", r.code, r.out)
		}
	})
}

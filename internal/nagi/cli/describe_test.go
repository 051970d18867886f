package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestDescribeHasAllThatIsKnownOfADocument(t *testing.T) {
	inWorld(t, func(w *world) {
		w.prints(`
Name:        shop/home
Kind:        Website.example.com
Bucket:      websites, revision 1
Phase:       Synced
Reconciled:  revision 1
Controller:  websites
First seen:  10s ago, 2000-01-01T00:00:00Z
Why:         It is as it should be: nothing is due; revision 1 is reconciled.
Conditions:
  TYPE         STATUS   REASON   AGE   REVISION   MESSAGE
  Reconciled   True     Synced   10s   1          
Owns:
  WHAT                  COUNT   STATES               KEYS
  Page (bucket pages)   2       2 without a record   shop.home-0 shop.home-1
Document:
  apiVersion: example.com/v1
  kind: Website
  metadata:
    labels:
      tier: gold
    name: home
    namespace: shop
    resourceVersion: "1"
  spec:
    host: home.example
    pages: 2
    password: (secret)
  status:
    url: https://home.example
`, "describe", "websites/shop/home")
	})
}

func TestDescribeTellsWhatIsWrongAndWhatItCouldNotAsk(t *testing.T) {
	inWorld(t, func(w *world) {
		w.has(w.ok("describe", "websites", "new", "-n", "lab"), "Phase:       Invalid", "Invalid:     revision 5: spec.pages: ")
		w.has(w.ok("describe", "websites/shop/blog"), "Events:", "Warning   Terminal   websites   terminal error: no such domain")
		w.stopController()
		w.has(w.ok("describe", "websites/shop/blog"), "Phase:       Terminal", "Not looked at:\n  controller \"websites\" is not asked")
		var d struct {
			Phase string
			Notes []string
			Owns  []struct{ Count int }
		}
		w.must(json.Unmarshal([]byte(w.ok("describe", "websites/shop/home", "-o", "json")), &d))
		if d.Phase != "Synced" || len(d.Notes) != 1 || len(d.Owns) != 1 || d.Owns[0].Count != 2 {
			t.Errorf("%+v", d)
		}
	})
}

// TestDescribeOfADocumentThatIsGoneShowsTheTeardownThatIsOwed: with the controller stopped it is.
func TestDescribeOfADocumentThatIsGoneShowsTheTeardownThatIsOwed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		kv, err := w.js.KeyValue(w.Context(), "websites")
		w.must(err)
		w.must(kv.Delete(w.Context(), "shop.home"))
		time.Sleep(time.Second)
		got := w.ok("describe", "websites/shop/home")
		w.has(got, "the document is gone, and its teardown is not over", "Document, as it was last:", "host: home.example")
		if strings.Contains(got, "hunter2") {
			t.Errorf("it shows a secret:\n%s", got)
		}
		if r := w.nagi("describe", "websites/shop/nosuch"); r.code != CodeNotFound {
			t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
	})
}

// has checks that a text has parts.
func (w *world) has(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("there is no %q in\n%s", part, text)
		}
	}
}

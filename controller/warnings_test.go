package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
)

// TestWhatNobodyHearsIsInTheRecordAndInOneEvent, until it is mended.
func TestWhatNobodyHearsIsInTheRecordAndInOneEvent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		events := record.NewFakeRecorder(1000)
		var seen calls
		c, sites, _ := w.runningSites(&seen, WithEventRecorder(butLease{events}))
		warned := func() *metav1.Condition {
			kept, err := sites.Record(t.Context(), "home")
			must(t, err)
			return meta.FindStatusCondition(kept.Conditions, entity.ConditionDocumentWarnings)
		}
		told := func(what string, n int) {
			t.Helper()
			idle(t, c)
			if len(events.Events) != n {
				t.Errorf("%s: %d events, want %d", what, len(events.Events), n)
			}
			for len(events.Events) > 0 {
				if event := <-events.Events; !strings.Contains(event, "Warning DocumentWarnings spec.") {
					t.Errorf("%s: event %q", what, event)
				}
			}
		}
		if warned() != nil {
			t.Error("a plain document is warned about")
		}
		for i, titles := range []string{"Title", "Title", "titel"} {
			before := seen.count("home")
			w.put("sites", "home", fmt.Sprintf(`{"spec":{%q:"t%d"}}`, titles, i))
			natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("home") > before })
			natstest.Eventually(t, "the record says so", func() bool {
				have := warned()
				return have != nil && have.Status == metav1.ConditionTrue &&
					strings.HasPrefix(have.Message, "spec."+titles+": ") && strings.Contains(have.Message, "did you mean title?")
			})
			told(titles, []int{1, 0, 1}[i])
		}
		revision := func() uint64 {
			kept, err := sites.Record(t.Context(), "home")
			must(t, err)
			return kept.Revision
		}
		before, count := revision(), seen.count("home")
		c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "it is reconciled", func() bool { return seen.count("home") > count })
		told("reconciled again", 0)
		if revision() != before {
			t.Error("a reconcile with the same warnings wrote the record")
		}
		w.put("sites", "home", `{"spec":{"title":"mended"}}`)
		natstest.Eventually(t, "nothing is left to warn about", func() bool { return warned() == nil })
		told("mended", 0)
	})
}

// TestManyDocumentsWithWarningsMakeFewEvents: who may write documents can write any number.
func TestManyDocumentsWithWarningsMakeFewEvents(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		events := record.NewFakeRecorder(1000)
		var seen calls
		c, sites, _ := w.runningSites(&seen, WithEventRecorder(butLease{events}))
		for i := range 300 {
			w.put("sites", fmt.Sprintf("odd-%d", i), `{"spec":{"Title":"t"}}`)
		}
		natstest.Eventually(t, "all are reconciled", func() bool { return seen.count("odd-299") > 0 })
		idle(t, c)
		if n := len(events.Events); n == 0 || n >= 250 {
			t.Errorf("%d events of 300 documents", n)
		}
		kept, err := sites.Record(t.Context(), "odd-299")
		must(t, err)
		if meta.FindStatusCondition(kept.Conditions, entity.ConditionDocumentWarnings) == nil {
			t.Error("the record of the last one says nothing")
		}
	})
}

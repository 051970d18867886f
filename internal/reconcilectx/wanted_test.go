package reconcilectx_test

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestWhatIsPrunedSinceAReconcileBeganIsNotSpokenOf: it has not said all that it wants there.
func TestWhatIsPrunedSinceAReconcileBeganIsNotSpokenOf(t *testing.T) {
	shelf, pages := source.Place{Bucket: "shelf"}, source.Place{Bucket: "pages"}
	pruned := sets.New(shelf)
	config := &reconcilectx.Config{Pruned: func() sets.Set[source.Place] { return pruned }}
	began := reconcilectx.NewContext(t.Context(), config, logr.Discard(), "home", 0)
	pruned = sets.New(shelf, pages)
	later := reconcilectx.NewContext(t.Context(), config, logr.Discard(), "home", 0)
	for _, c := range []*reconcilectx.Context{began, later} {
		c.Want(pages, "a")
		c.Keep(pages, "b")
		c.Keep(shelf, "c")
		if _, said := c.Wanted(pages); said != (c == later) {
			t.Errorf("a reconcile that began before: %v; it has said what it wants: %v", c == began, said)
		}
		if keys, said := c.Wanted(shelf); !said || !keys.Has("c") || len(c.Kept()) != 2 {
			t.Errorf("it wants %v, and keeps %v", keys, c.Kept())
		}
	}
}

package rolling

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// The sites of TestTheOtherCodeGoesOnFromTheRecords.
const (
	kept      = "kept"      // stays as it is
	suspended = "suspended" // stays as it is, too
	invalid   = "invalid"   // does not decode
	changed   = "changed"   // while nobody runs
	deleted   = "deleted"   // while nobody runs
	orphaned  = "orphaned"  // deleted while nobody runs, and its page stays
	large     = "large"     // deleted, too; its record has no document
)

// TestTheOtherCodeGoesOnFromTheRecords: each code understands the other's records. It writes only what differs, knows
// the status, and tears down sites that were deleted while nobody ran, with the last document.
func TestTheOtherCodeGoesOnFromTheRecords(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, first, second side) {
		w := newWorld(t)
		one := w.start(first, long...)
		for _, key := range []string{kept, changed, deleted} {
			w.reconciled(key, w.put(sites, key, fmt.Sprintf(`{"spec":{"title":"the first of %s"}}`, key)))
		}
		const left = `{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}},"spec":{"title":"%s"}}`
		w.reconciled(orphaned, w.put(sites, orphaned, fmt.Sprintf(left, "left")))
		w.reconciled(large, w.put(sites, large, fmt.Sprintf(left, strings.Repeat("large ", 100))))
		w.put(sites, suspended, `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{"title":"later"}}`)
		w.put(sites, invalid, `{"spec":{"title":7}}`)
		natstest.Eventually(t, "the records say why two are not reconciled", func() bool {
			return w.record(suspended).reason() == "Suspended" && w.record(invalid).reason() == "Invalid"
		})
		one.leads()
		one.stop()
		before := w.revisions(kept, suspended)

		w.delete(sites, deleted)
		w.delete(sites, orphaned)
		w.delete(sites, large)
		change := w.put(sites, changed, `{"spec":{"title":"the second of changed"}}`)

		other := w.start(second, long...)
		w.reconciled(changed, change)
		for _, key := range []string{deleted, orphaned, large} {
			natstest.Eventually(t, "the record of "+key+" is removed", func() bool { return !w.exists(status, key) })
		}
		natstest.Eventually(t, kept+" was looked at", func() bool { return other.endedOf(kept) > 0 })
		natstest.Eventually(t, "three are torn down", func() bool { return other.state().TornDown == 3 })
		other.leads()
		other.stop()

		if after := w.revisions(kept, suspended); after != before {
			t.Errorf("what is as it was was written again: %s before, %s after", before, after)
		}
		// The two note another revision of it, so each writes it once when it takes over.
		if reason := w.record(invalid).reason(); reason != "Invalid" {
			t.Errorf("what is invalid is %q", reason)
		}
		for key, stays := range map[string]bool{deleted: false, orphaned: true, large: true} {
			if w.exists(pages, key) != stays {
				t.Errorf("the page of %s is there: %t, want %t", key, !stays, stays)
			}
		}
		w.sawLast(other, deleted, attempt{Title: "the first of deleted"})
		w.sawLast(other, kept, attempt{Exists: true, Title: "the first of kept", By: string(first)})
		w.sawFirst(other, changed, attempt{Exists: true, Title: "the second of changed", By: string(first)})
		if by := w.record(changed).Status.By; by != string(second) {
			t.Errorf("the status of %s is by %q, want %q", changed, by, second)
		}
		if n := other.endedOf(kept); n != 1 {
			t.Errorf("%s was reconciled %d times, want once, from the initial list", kept, n)
		}
	})
}

// revisions returns the revisions of the records and pages of these sites.
func (w *world) revisions(keys ...string) (all string) {
	w.t.Helper()
	for _, key := range keys {
		_, record := w.get(status, key)
		_, page := w.get(pages, key)
		all += fmt.Sprintf("%s %d %d; ", key, record, page)
	}
	return all
}

// sawFirst checks what the first reconcile of a key found, sawLast the last one.
func (w *world) sawFirst(r *process, key string, want attempt) {
	w.t.Helper()
	w.saw(r.began(key), 0, key, want)
}

func (w *world) sawLast(r *process, key string, want attempt) {
	w.t.Helper()
	began := r.began(key)
	w.saw(began, len(began)-1, key, want)
}

func (w *world) saw(began []attempt, i int, key string, want attempt) {
	w.t.Helper()
	if len(began) == 0 {
		w.t.Errorf("%s was never reconciled", key)
		return
	}
	got := began[i]
	if got.Exists != want.Exists || got.Title != want.Title || got.By != want.By {
		w.t.Errorf("the reconcile of %s found %+v, want %+v", key, got, want)
	}
}

package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

func TestABrakeThatIsNotEngagedSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		const want = "\nwebsites     Website.example.com   not engaged\n"
		if got := w.ok("brake"); !strings.HasSuffix(got, want) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		w.runs(5, []string{"brake", "release", "websites", "--expect", "0"}, "holds nothing")
		w.runs(5, []string{"restore", "websites", "--expect", "0"}, "nothing to restore")
	})
}

// TestAnEngagedBrakeNamesTheSafeCommandFirst, and the one that deletes last.
func TestAnEngagedBrakeNamesTheSafeCommandFirst(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		got := w.runs(4, []string{"brake"}, "engaged", " 12 ", "nagi brake release Website.example.com --expect 12 --list ", "  # last")
		if restore := strings.Index(got, "nagi restore "); restore < 0 || restore > strings.Index(got, "brake release") {
			t.Error(got)
		}
		w.runs(4, []string{"brake", "websites"}, "shop/s000", "shop/s011")
		var all []braked
		w.must(json.Unmarshal([]byte(w.runs(4, []string{"brake", "websites", "-o", "json"})), &all))
		if len(all) != 1 || !all[0].Brake.Engaged || all[0].Brake.Count != vanishing || len(all[0].Keys) != vanishing {
			t.Errorf("%+v", all)
		}
	})
}

// TestVanishedDocumentsAreRestoredByTheirNumber, of a kind without secrets.
func TestVanishedDocumentsAreRestoredByTheirNumber(t *testing.T) {
	inWorld(t, func(w *world) {
		w.vanishedNotes()
		w.runs(0, []string{"restore", "notes", "--list"}, "s000", "yes")
		w.runs(5, []string{"restore", "notes"}, "nagi restore Note --expect 12")
		w.runs(5, []string{"restore", "notes", "--expect", "11"}, "nothing is done: there are 12")
		w.wants(w.typing("11\n", "restore", "notes"), 5, []string{"restore"}, "nothing is done")
		w.wants(w.typing("\n", "restore", "notes"), 5, []string{"restore"}, "no number was typed")
		if n := w.keysIn("notes"); n != 0 {
			t.Fatalf("%d documents are there", n)
		}
		w.wants(w.typing("12\n", "restore", "notes"), 0, []string{"restore"}, "12 documents are restored")
		w.settle()
		if n := w.keysIn("notes"); n != vanishing {
			t.Errorf("%d documents are there", n)
		}
		w.runs(0, []string{"brake"}, "not engaged")
	})
}

// TestWhatCannotBeRestoredIsToldWithItsReason: no record keeps secrets, so nothing of such a kind comes from records.
func TestWhatCannotBeRestoredIsToldWithItsReason(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		w.runs(5, []string{"restore", "websites", "--expect", "12"}, "secret", "none of the 12 that vanished can be restored")
	})
}

// TestABrakeIsReleasedByItsNumberAlone, which deletes what the vanished websites owned.
func TestABrakeIsReleasedByItsNumberAlone(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		w.runs(5, []string{"brake", "release", "websites"}, "shop/s000", "deletes for good", "--expect 12")
		w.runs(5, []string{"brake", "release", "websites", "--expect", "13"}, "there are 12")
		w.runs(5, []string{"brake", "release", "websites", "--expect", "12", "--engagement", "other"}, "look again")
		w.wants(w.typing("yes\n", "brake", "release", "websites"), 5, []string{"brake", "release"}, "nothing is done")
		if n := w.pagesThere(); n != vanishing {
			t.Fatalf("%d pages are there", n)
		}
		w.runs(0, []string{"brake", "release", "websites", "--expect", "12"}, "12 deletes go on")
		w.settle()
		if n := w.pagesThere(); n != 0 {
			t.Errorf("%d pages are there", n)
		}
	})
}

// TestABrakeIsNotReleasedOfOtherKeysThanWereRead, though they are as many: one is put back, and another vanishes.
func TestABrakeIsNotReleasedOfOtherKeysThanWereRead(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		typed := func() []string {
			said := w.runs(4, []string{"brake", "websites"})
			line := said[strings.Index(said, "nagi brake release"):]
			return strings.Fields(line[:strings.Index(line, "  #")])[1:]
		}
		read := typed()
		w.stopController()
		w.put("websites", "shop.s000", `{"spec":{"host":"s.example","pages":1}}`)
		w.startController()
		w.settle()
		w.put("websites", "shop.late", `{"spec":{"host":"s.example","pages":1}}`)
		w.settle()
		w.stopController()
		stream, err := w.js.Stream(w.Context(), "KV_websites")
		w.must(err)
		w.must(stream.Purge(w.Context(), jetstream.WithPurgeSubject("$KV.websites.shop.late")))
		w.startController()
		w.settle()
		w.runs(4, []string{"brake", "websites"}, "shop/late", "--expect 12 --list")
		w.runs(5, read, "other keys than you have read")
		w.settle()
		if n := w.pagesThere(); n != vanishing+1 {
			t.Fatalf("%d pages are there", n)
		}
		w.runs(0, typed(), "12 deletes go on")
		w.settle()
		if n := w.pagesThere(); n != 1 {
			t.Errorf("%d pages are there", n)
		}
	})
}

// TestABrakeIsReleasedThoughNoControllerAnswers: the request is left where the next one finds it, if that is asked for.
func TestABrakeIsReleasedThoughNoControllerAnswers(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		w.stopController()
		w.runs(4, []string{"brake"}, "engaged", "as its status bucket has it", "--expect 12 --offline")
		w.runs(7, []string{"brake", "release", "websites", "--expect", "12"}, "--offline")
		w.runs(5, []string{"brake", "release", "websites", "--offline", "--expect", "11"}, "there are 12")
		if value := w.value("websites-status", "_nagi.release"); value != "" {
			t.Fatal(value)
		}
		w.runs(0, []string{"brake", "release", "websites", "--offline", "--expect", "12"}, "is left in bucket websites-status")
		w.startController()
		w.settle()
		natstest.Eventually(w, "the pages are gone", func() bool { return w.pagesThere() == 0 })
	})
}

// TestAReleaseThatIsLeftIsOfTheListThatItNames: the controller that leads next compares, for the bucket has no list.
func TestAReleaseThatIsLeftIsOfTheListThatItNames(t *testing.T) {
	inBrakedWorld(t, func(w *world) {
		var read []struct{ List string }
		r := w.nagi("brake", "websites", "-o", "json")
		w.must(json.Unmarshal([]byte(r.out), &read))
		release := func(list string) {
			w.stopController()
			w.runs(0, []string{"brake", "release", "websites", "--offline", "--expect", "12", "--list", list}, "is left in bucket")
			w.startController()
			w.settle()
		}
		release("5f1c0b6a9d3e7248")
		if n := w.pagesThere(); n != vanishing || w.value("websites-status", "_nagi.release") != "" {
			t.Fatalf("%d pages are there", n)
		}
		release(read[0].List)
		natstest.Eventually(w, "the pages are gone", func() bool { return w.pagesThere() == 0 })
	})
}

func TestOrphansAreListedDeletedAndAdoptedByTheirNumbers(t *testing.T) {
	inOrphanedWorld(t, func(w *world) {
		pages := w.pagesThere()
		w.runs(0, []string{"orphans"}, "neverWas", "shop/left-0", "shop/young", "shop/other")
		w.runs(0, []string{"orphans", "websites", "--owner", "shop/other"}, "shop/left-3")
		w.runs(5, []string{"orphans", "delete", "websites"}, "deleted for good", "shop/left-0", "--expect 4")
		w.runs(5, []string{"orphans", "delete", "websites", "--expect", "3"}, "there are 4")
		w.runs(5, []string{"orphans", "delete", "websites", "--expect", "4", "--list", "another"}, "look at it again")
		w.runs(2, []string{"orphans", "adopt", "websites", "--expect", "1"}, "--owner and --new-owner")
		adopt := []string{"orphans", "adopt", "websites", "--owner", "shop/other", "--new-owner", "shop/home"}
		w.runs(5, append(adopt, "--expect", "2"), "there are 1")
		if n := w.pagesThere(); n != pages {
			t.Fatalf("%d pages are there, of %d", n, pages)
		}
		w.runs(0, append(adopt, "--expect", "1"), "1 orphans are adopted, 0 skipped, 0 left")
		if page := w.value("pages", "shop.left-3"); !strings.Contains(page, "shop/home") {
			t.Error(page)
		}
		w.runs(0, []string{"orphans", "delete", "websites", "--owner", "shop/young", "--expect", "3", "-o", "json"}, `"deleted": 3`)
		for i := range 3 {
			if page := w.value("pages", "shop.left-"+strconv.Itoa(i)); page != "" {
				t.Errorf("left-%d is still there", i)
			}
		}
	})
}

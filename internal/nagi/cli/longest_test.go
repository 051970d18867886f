package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
)

// TestWhatRunsForLongestIsTold by why, by top and by the page.
func TestWhatRunsForLongestIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.long", `{"spec":{"host":"takes.example"}}`)
		time.Sleep(20 * time.Second)
		w.put("websites", "shop.later", `{"spec":{"host":"takes.example"}}`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var all allWaiting
		w.must(json.Unmarshal([]byte(w.ok("why", "-o", "json")), &all))
		found := false
		for _, g := range all.Groups {
			if g.State == controller.StateRunning {
				found = g.Count == 1 && g.Example == "shop/long" && !g.NotOK && time.Since(g.Oldest).Round(time.Second) == 25*time.Second
			}
		}
		if !found {
			t.Errorf("what runs is not among the groups: %s", w.ok("why", "-o", "json"))
		}
		w.wantIn(w.ok("why"), "running     25s   -        Website.example.com/shop/long",
			"ready       5s    -        Website.example.com/shop/later") // for there is one worker
		w.wantIn(w.ok("top"), "shop/long runs, attempt 1")
		w.ui(false).get("/waits", `<a href="/kinds/Website.example.com/shop%2Flong">Website.example.com/shop/long</a>, for `)
	})
}

// TestWhatWakesItselfIsOnThePage of what waits, in a section of its own.
func TestWhatWakesItselfIsOnThePage(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		loops := func() string {
			_, after, _ := strings.Cut(b.get("/waits", "Waking themselves"), "Waking themselves")
			return after
		}
		if got := loops(); !strings.Contains(got, "None.") {
			t.Errorf("before there is one: %s", got)
		}
		w.put("websites", "lab.loop", `{"spec":{"host":"wakes.example"}}`)
		w.settle()
		w.settle()
		w.wantIn(loops(), `<a href="/kinds/Website.example.com/lab%2Floop">Website.example.com/lab/loop</a>`)
	})
}

// TestWhoMayOnlyReadFindsAKeyThatWakesItself.
func TestWhoMayOnlyReadFindsAKeyThatWakesItself(t *testing.T) {
	inWorldOf(t, readerSet(t), func(w *world) {
		w.put("websites", "lab.loop", `{"spec":{"host":"wakes.example"}}`)
		w.settle()
		w.settle()
		for code, args := range map[int][]string{CodeNotSo: {"get", "--not-ok"}, 0: {"why", "websites/lab/loop"}} {
			w.wants(w.nagi(asReader(args...)...), code, args, "lab/loop", "looping")
		}
		w.wants(w.nagi(asReader("doctor")...), CodeNotSo, []string{"doctor"}, "looping", "lab/loop", "wake themselves")
	})
}

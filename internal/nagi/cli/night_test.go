package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestANightOnCall: among 500 documents of two kinds are a parked key, an API that is away, a document that does not
// decode, one that is suspended, a brake that holds, and a key that wakes itself. Each is found and mended by the
// commands of docs/oncall.md alone.
func TestANightOnCall(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 483 {
			w.put("websites", fmt.Sprintf("shop.s%03d", i), `{"spec":{"host":"s.example","pages":1}}`)
		}
		w.vanishedNotes()
		w.put("websites", "lab.loop", `{"spec":{"host":"wakes.example"}}`)
		w.settle()
		w.settle()

		found := w.runs(CodeNotSo, []string{"get", "--not-ok"},
			"shop/blog", "no such domain", "shop/cart", "the API of domains is away", "lab/new", "lab/old", "lab/loop", "held")
		if n := strings.Count(found, "\n"); n != 1+5+vanishing {
			t.Errorf("%d lines are not the 5 websites and %d notes:\n%s", n-1, vanishing, found)
		}
		w.runs(CodeNotSo, []string{"doctor"}, "brake", "notes", "lab/new", "lab/loop")
		w.runs(0, []string{"why"}, "no such domain", "the API of domains is away")

		// Nothing is lost by these, and the brake lets go what is not missing any more.
		w.runs(CodeNotSo, []string{"brake"}, "nagi restore Note  # puts vanished documents back")
		w.runs(0, []string{"restore", "notes", "--list"}, "s000")
		w.runs(CodeRefused, []string{"restore", "notes", "--expect", fmt.Sprint(vanishing - 1)})
		w.runs(0, []string{"restore", "notes", "--expect", fmt.Sprint(vanishing)})

		w.runs(0, []string{"why", "websites/shop/blog"}, "failed for good", "nagi unpark Website.example.com/shop/blog")
		w.ok("patch", "websites/shop/blog", "-p", `{"spec":{"host":"good.example"}}`)
		w.ok("wait", "websites/shop/blog", "--for=reconciled")

		w.back.Store(true)
		w.ok("reconcile", "websites/shop/cart")
		w.ok("wait", "websites/shop/cart", "--for=reconciled")

		w.ok("patch", "websites/lab/new", "-p", `{"spec":{"pages":3}}`)
		w.ok("wait", "websites/lab/new", "--for=reconciled")
		w.ok("resume", "websites/lab/old")
		w.ok("wait", "websites/lab/old", "--for=reconciled")
		w.ok("suspend", "websites/lab/loop", "--reason", "wakes itself, INC-7")
		w.settle()

		left := w.runs(CodeNotSo, []string{"get", "--not-ok"}, "lab/loop", "suspended")
		if strings.Count(left, "\n") != 2 || w.keysIn("notes") != vanishing {
			t.Errorf("%d notes, and not well are\n%s", w.keysIn("notes"), left)
		}
		w.runs(0, []string{"brake"}, "not engaged")
	})
}

package browser

import (
	"fmt"
	"strings"
	"testing"
)

// views are the addresses of all that the page shows, in a world with everyday documents and a brake that holds.
var views = []struct{ name, path string }{
	{"controllers", "/"},
	{"kinds", "/kinds"},
	{"table", "/kinds/Website.example.com"},
	{"search", "/kinds/Website.example.com?q=tier%3Dtin&state=not-ok"},
	{"object", "/kinds/Website.example.com/shop%2Fhome"},
	{"parked", "/kinds/Website.example.com/shop%2Fblog"},
	{"failing", "/kinds/Website.example.com/shop%2Fcart"},
	{"invalid", "/kinds/Website.example.com/lab%2Fnew"},
	{"suspended", "/kinds/Website.example.com/lab%2Fold"},
	{"long", "/kinds/Website.example.com/lab%2F" + longName},
	{"waits", "/waits"},
	{"brake", "/brake/notes"},
	{"delete", "/delete/Website.example.com/shop%2Fhome"},
	{"delete long", "/delete/Website.example.com/lab%2F" + longName},
	{"missing", "/kinds/Website.example.com/shop%2Fnothing"},
}

// TestThePage looks at each view. The subtests change nothing.
func TestThePage(t *testing.T) {
	w := newWorld(t)
	w.everyday()
	w.engageBrake()
	reading, acting := w.ui(), w.ui("--allow-actions")
	for _, u := range []*ui{reading, acting} {
		first := u.tab(t, 1600)
		first.open("/")
		first.until("the controllers have answered",
			`document.querySelectorAll(".counts").length == 2 && document.querySelector(".banner")`)
	}
	for _, width := range []int64{360, 1600} {
		for _, v := range views {
			t.Run(fmt.Sprintf("%s %d", v.name, width), func(t *testing.T) { looksAt(acting.tab(t, width), v.path) })
		}
	}
	t.Run("acts by the keyboard", func(t *testing.T) { actsByTheKeyboard(acting.tab(t, 1600)) })
	t.Run("is useful without its script", func(t *testing.T) { withoutScript(acting.tab(t, 1600)) })
	t.Run("offers no acts unless it may act", func(t *testing.T) { offersNoActs(reading.tab(t, 1600)) })
}

// looksAt opens a view, and looks at it in all respects.
func looksAt(b *tab, path string) {
	b.open(path)
	if strings.HasSuffix(path, "/shop%2Fnothing") {
		b.heard() // an answer that is an error is in the log of the browser
	} else {
		b.live()
	}
	fits(b)
	canBeRead(b)
	isTold(b)
	isWalked(b)
	b.shoot(strings.Trim(b.Name(), "/"))
}

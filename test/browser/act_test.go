package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestThePageActs by its buttons, with the keyboard, and says what it did.
func TestThePageActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyday()
	u := w.ui("--allow-actions")
	b := u.tab(t, 360)
	act := func(verb string) {
		b.Helper()
		b.tabTo(fmt.Sprintf(`button[value=%q]`, verb))
		b.loads(func() { b.press(kb.Enter) })
	}
	b.open("/kinds/Website.example.com/shop%2Fhome")
	act("suspend")
	b.has("suspend", "It is suspended")
	if !strings.Contains(w.value("websites", "shop.home"), `"nagi/suspend":"true"`) {
		t.Error("it is not suspended")
	}
	b.live()
	b.until("the page shows it", `document.getElementById("why").innerText.includes("suspended")`)
	act("resume")
	b.has("resume", "It is resumed")
	if strings.Contains(w.value("websites", "shop.home"), "nagi/suspend") {
		t.Error("it is suspended still")
	}
	act("reconcile")
	b.has("reconcile", "It is reconciled now")

	// A page that does not follow offers what applied when it was loaded.
	old := u.tab(t, 360)
	old.script(false)
	old.open("/kinds/Website.example.com/shop%2Fblog")

	b.open("/kinds/Website.example.com/shop%2Fblog")
	w.put("websites", "shop.blog", `{"spec":{"host":"good.example","pages":1}}`)
	b.live()
	b.until("a change is shown", `document.getElementById("writing").innerText.includes("good.example")`)
	b.until("what it owns, too", `document.querySelector("svg.tree").textContent.includes("shop/blog-0")`)
	b.until("what applies now is offered", `!document.querySelector("button[value=unpark]") &&
		document.querySelector("button[value=reconcile]").title`)

	// What cannot be done is told, and the way back.
	old.tabTo(`button[value="unpark"]`)
	old.loads(func() { old.press(kb.Enter) })
	old.has("unpark of what is not parked", "It did not work", "shop/blog")
	old.heard() // an answer that is an error is in the log of the browser
	old.tabTo(`main a[href="/kinds/Website.example.com/shop%2Fblog"]`)
	old.loads(func() { old.press(kb.Enter) })
	old.has("the way back", "good.example")

	b.open("/kinds/Website.example.com/lab%2F" + longName)
	act("unpark")
	b.has("unpark", "It is tried again")
}

// TestADocumentIsDeletedByCount: the page shows what goes with it, and another number does nothing.
func TestADocumentIsDeletedByCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyday()
	b := w.ui("--allow-actions").tab(t, 360)
	b.open("/kinds/Website.example.com/shop%2Fhome")
	b.tabTo(`#acts a[href="/delete/Website.example.com/shop%2Fhome"]`)
	look := func() {
		b.Helper()
		b.loads(func() { b.press(kb.Enter) })
		b.has("what goes", "Delete Website.example.com/shop/home?", "4 documents go", "pages/shop/home-2")
	}
	look()
	b.shoot("delete")
	remove := func(count string) {
		b.Helper()
		b.tabTo("#delete-count")
		b.press(count, kb.Tab)
		if got := b.text(`document.activeElement.textContent`); got != "Delete for good" {
			b.Fatalf("after the count comes %q", got)
		}
		b.press(" ")
	}
	b.loads(func() { remove("1") })
	b.has("another count", "It did not work", "1 was typed, and 4 documents would go")
	b.heard()
	if w.value("websites", "shop.home") == "" {
		t.Error("another count deletes")
	}
	b.tabTo(`main a[href="/delete/Website.example.com/shop%2Fhome"]`)
	look()
	b.loads(func() { remove("4") })
	b.has("the delete", "It is deleted", "Website.example.com")
	if w.value("websites", "shop.home") != "" {
		t.Error("it is still there")
	}
	natstest.Eventually(t, "what it owned is gone", func() bool { return w.value("pages", "shop.home-2") == "" })
}

// TestTheBrakeIsReleasedByCount: a banner leads to what is held; another number than what is held does nothing; and once
// the brake holds nothing the banner goes by itself.
func TestTheBrakeIsReleasedByCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.engageBrake()
	u := w.ui("--allow-actions")
	b, other := u.tab(t, 360), u.tab(t, 1600)
	other.open("/waits")
	other.until("the banner comes by itself",
		`document.querySelector("[role=alert]")?.textContent.includes("The brake of notes holds 14 deletes")`)
	b.open("/")
	b.until("the banner", `document.querySelector(".banner")`)
	b.tabTo(".banner a")
	b.loads(func() { b.press(kb.Enter) })
	b.has("the brake", "14 documents can be put back", "note-00", "This deletes for good what 14 primaries own")
	release := func(count string) {
		b.Helper()
		b.tabTo("#release-count")
		b.press(count, kb.Tab)
		if got := b.text(`document.activeElement.textContent`); got != "Delete what they own" {
			b.Fatalf("after the count comes %q", got)
		}
		b.press(" ")
	}
	release("")
	if got := b.text(`document.activeElement.id`); got != "release-count" ||
		!strings.Contains(b.says(), "What is held") {
		b.Errorf("without a count the browser goes to %q", got)
	}
	b.open("/brake/notes")
	b.loads(func() { release("13") })
	b.has("another count", "It did not work", "14 deletes")
	if b.heard(); !strings.Contains(w.value("notes-status", "note-00"), "note") &&
		w.value("notes-status", "note-00") == "" {
		t.Error("another count deletes")
	}
	b.open("/brake/notes")
	b.loads(func() { release(fmt.Sprint(vanishing)) })
	b.has("the release", "What was held goes on")
	natstest.Eventually(t, "the teardowns are over", func() bool { return w.value("notes-status", "note-00") == "" })
	other.until("the banner goes by itself", `!document.querySelector(".banner")`)
	other.until("nothing waits", `document.body.innerText.includes("All is well")`)
}

// TestWhatVanishedIsPutBackByCount.
func TestWhatVanishedIsPutBackByCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.engageBrake()
	b := w.ui("--allow-actions").tab(t, 1600)
	b.open("/brake/notes")
	b.tabTo("#restore-count")
	b.press(fmt.Sprint(vanishing))
	b.loads(func() { b.press(kb.Enter) })
	b.has("the restore", "The documents were put back")
	if !strings.Contains(w.value("notes", "note-13"), "a note") {
		t.Error("a document is not back")
	}
	b.until("nothing is held", `document.getElementById("held").innerText.includes("holds nothing")`)
}

package browser

import (
	"strings"

	"github.com/chromedp/chromedp/kb"
)

// isWalked presses Tab from the top of a page to its end: each link and control gets the focus once, in the order in
// which they are seen, and it is seen where the focus is.
func isWalked(b *tab) {
	wanted := eval[int](b, inPage(`
window.wrong = []; window.reached = [];
window.wanted = [...document.querySelectorAll("a[href], button, input, select, summary, textarea, [tabindex='0']")]
	.filter((e) => e.type != "hidden" && !e.disabled && shown(e));
const check = () => {
	const e = document.activeElement, last = reached.at(-1);
	if (e == document.body) return "the focus is nowhere";
	if (!wanted.includes(e)) return "the focus is on what is not a control: " + path(e);
	if (reached.includes(e)) return "the focus is on " + path(e) + " again";
	reached.push(e);
	const s = getComputedStyle(e), r = e.getBoundingClientRect();
	if (s.outlineStyle == "none" || parseFloat(s.outlineWidth) < 2) return "it is not seen that the focus is on " + path(e);
	if (r.bottom <= 0 || r.top >= innerHeight || r.right <= 0 || r.left >= innerWidth || r.width == 0)
		return path(e) + " has the focus, and is out of sight";
	if (!last) return "";
	const up = []; for (let p = last; p; p = p.parentElement) up.push(p);
	let b = e; while (!up.includes(b.parentElement)) b = b.parentElement;
	const a = up[up.indexOf(b.parentElement) - 1];
	if (!a || a == b) return "";
	const ra = a.getBoundingClientRect(), rb = b.getBoundingClientRect();
	const line = Math.min(ra.bottom, rb.bottom) - Math.max(ra.top, rb.top) > Math.min(ra.height, rb.height) / 2;
	if (rb.bottom <= ra.top + 1 || line && rb.right <= ra.left + 1) return path(e) + " is before " + path(last) + ", and comes after it";
	return "";
};
addEventListener("keyup", () => { const w = check(); if (w) wrong.push(w); }, true);
return wanted.length;`))
	if wanted < 4 {
		b.Fatalf("the page has %d links and controls", wanted)
	}
	b.press(strings.Repeat(kb.Tab, wanted))
	for _, wrong := range b.texts(`wrong.slice(0, 3)`) {
		b.Error(wrong)
	}
	if left := b.texts(inPage(`return wanted.filter((e) => !reached.includes(e)).map(path).slice(0, 3)`)); len(left) > 0 {
		b.Errorf("the keyboard does not reach %s", strings.Join(left, ", "))
	}
}

// actsByTheKeyboard goes from view to view, searches, opens what is closed and scrolls, without a mouse.
func actsByTheKeyboard(b *tab) {
	at := func(path string) {
		b.Helper()
		if got := b.text(`location.pathname + location.search`); got != path {
			b.Fatalf("the keyboard leads to %s, want %s", got, path)
		}
	}
	b.open("/")
	b.live()
	b.press(kb.Tab)
	if got := b.text(`document.activeElement.textContent`); got != "Skip to the content" {
		b.Errorf("first is %q", got)
	}
	b.press(kb.Enter)
	if got := b.text(`document.activeElement.id`); got != "main" {
		b.Errorf("who skips is in %q", got)
	}
	b.open("/")
	b.tabTo(`a[href="/kinds"]`)
	b.loads(func() { b.press(kb.Enter) })
	at("/kinds")
	b.tabTo(`a[href="/kinds/Website.example.com"]`)
	b.loads(func() { b.press(kb.Enter) })
	b.tabTo("#q")
	b.press("tier=tin")
	b.tabTo("#state")
	b.press("w") // of "what is not well"
	b.tabTo(".filter button")
	b.loads(func() { b.press(" ") })
	at("/kinds/Website.example.com?q=tier%3Dtin&state=not-ok")
	b.tabTo(`a[href$="shop%2Fblog"]`)
	b.loads(func() { b.press(kb.Enter) })
	at("/kinds/Website.example.com/shop%2Fblog")
	b.open("/kinds/Website.example.com/shop%2Fhome")
	b.live()
	b.tabTo("summary")
	b.press(" ")
	b.until("the list is open", `document.getElementById("tree-list").open`)
	// What changes meanwhile takes neither the focus away nor what is open.
	b.do(`put({ id: "tree", html: document.getElementById("tree").outerHTML.replace(" open", "") })`)
	if !eval[bool](b, `document.getElementById("tree-list").open && document.activeElement.tagName == "SUMMARY"`) {
		b.Error("a change closes what was open, or takes the focus away")
	}
	b.resize(360)
	b.tabTo(`a[href="/kinds"]`)
	b.tabTo(`[data-scroll="tree"]`)
	b.press(kb.ArrowRight, kb.ArrowRight)
	b.until("the drawing is scrolled", `document.querySelector('[data-scroll="tree"]').scrollLeft > 0`)
}

package browser

import (
	"testing"
	"time"
)

// TestWhatIsAnnouncedIsNews: what a screen reader announces by itself, role status and alert, changes only when there is
// something to tell: not with each second that an age grows, nor each time that the page has looked.
func TestWhatIsAnnouncedIsNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.engageBrake()
	b := w.ui().tab(t, 1600)
	b.open("/")
	b.live()
	b.until("the banner is there", `document.querySelector(".banner")`)
	b.do(`window.announced = []; new MutationObserver((all) => all.forEach((m) => {
		const e = m.target.nodeType == 1 ? m.target : m.target.parentElement;
		if (e?.closest("[role=status], [role=alert], [aria-live]")) announced.push(e.outerHTML);
	})).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
	window.ageThen = document.querySelector(".banner time").textContent;
	window.asOfThen = document.getElementById("as-of").textContent`)
	b.until("an age has grown", `document.querySelector(".banner time").textContent != ageThen`)
	b.until("the page has looked again", `document.getElementById("as-of").textContent != asOfThen`)
	if announced := b.texts(`announced`); len(announced) > 0 {
		t.Errorf("nothing is new, and announced is %s", announced)
	}
	w.srv.Stop()
	if took := b.until("a cut is announced", `announced.some((a) => a.includes("Not live: "))`); took > 4*time.Second {
		t.Errorf("a cut is announced after %v", took) // the page looks every five seconds
	}
}

// TestThePageHasAnIcon: what a browser asks for by itself, beside pages and beside what is no page, is there.
func TestThePageHasAnIcon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.ui().tab(t, 360)
	for _, at := range []string{"/", "/page.css"} {
		b.open(at)
		for _, icon := range []string{"/icon.svg", "/favicon.ico"} {
			if !eval[bool](b,
				`new Promise((done) => { const i = new Image(); i.onload = () => done(i.naturalWidth > 0); i.onerror = () => done(false); i.src = "`+icon+`" })`) {
				t.Errorf("at %s there is no %s", at, icon)
			}
		}
	}
}

package browser

import (
	"strings"
	"testing"
)

// TestACutIsToldAndMended: without a reload the page says that it is not live while the server is away, or nagi ui, and
// shows what is once they are back.
func TestACutIsToldAndMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyday()
	u := w.ui()
	b, other := u.tab(t, 360), u.tab(t, 1600)
	const at = "/kinds/Website.example.com/shop%2Fhome"
	b.open(at)
	b.live()
	b.do(`window.loadedOnce = true`)
	cut := func(by string) {
		b.Helper()
		b.until("the page says that it is cut off from "+by, `document.getElementById("following").textContent.startsWith("Not live: ") &&
			document.getElementById("seen").classList.contains("cut")`)
		b.has("the cut", by, "Shown is what was as of ", "home.example")
		fits(b)
		canBeRead(b)
	}

	w.srv.Stop()
	cut("There is no connection to NATS")
	// What is opened meanwhile says so at once, and shows itself when it can.
	other.open("/kinds")
	other.has("a page without a server", "There is no connection to NATS")
	w.must(w.srv.Start())
	other.until("it is there", `document.querySelector("#kinds")`)
	other.heard() // an answer that is an error is in the log of the browser
	b.live()
	w.put("websites", "shop.home", `{"spec":{"host":"new.example","pages":3}}`)
	b.until("it follows again", `document.getElementById("writing").innerText.includes("new.example")`)

	// The same address serves again, as after an upgrade of nagi.
	u.stop()
	b.until("the page says that nagi ui is away",
		`document.getElementById("following").textContent.includes("what serves the page does not answer")`)
	address := strings.TrimPrefix(u.url, "http://")
	again := w.ui("--listen", address)
	b.live()
	w.put("websites", "shop.home", `{"spec":{"host":"newer.example","pages":3}}`)
	b.until("it follows again", `document.getElementById("writing").innerText.includes("newer.example")`)
	if !eval[bool](b, `window.loadedOnce === true`) {
		t.Error("the page was loaded again")
	}
	again.stop()
	b.until("it is no longer live", `document.getElementById("seen").classList.contains("cut")`)
	b.heard() // that nothing answered is in the log of the browser
	other.heard()
}

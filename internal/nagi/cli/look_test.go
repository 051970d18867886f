package cli

import (
	"testing"
	"time"
)

func TestKindsAreListedWithTheirControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		const want = "KIND      BUCKET     NAMESPACED   CONTROLLERS\nWebsite   websites   yes          websites v1.2.3\n"
		if got := w.ok("kinds"); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// TestKindsTellWhoSharesTheKeys, in the list and on the page.
func TestKindsTellWhoSharesTheKeys(t *testing.T) {
	inShards(t, func(w *world, _ map[string]func()) {
		time.Sleep(time.Minute) // the members are the same for long enough
		w.wantIn(w.ok("kinds"), "websites v1.2.3 (64 slots, 2 members)")
		w.wantIn(w.ok("kinds", "-o", "wide"), "websites v1.2.3 (64 slots: a, b)")
		w.wantIn(w.ok("kinds", "-o", "json"), `"slots": 64`, `"name": "a"`)
		w.ui(false).get("/kinds", "websites v1.2.3 (64 slots, 2 members)")
	})
}

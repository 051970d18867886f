package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestColoursAreForTerminals that want them: none in a pipe, none by NO_COLOR, and none by --no-color.
func TestColoursAreForTerminals(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true}, {map[string]string{"TERM": "xterm-256color"}, true}, {map[string]string{"NO_COLOR": "1"}, false},
		{map[string]string{"NO_COLOR": ""}, true}, {map[string]string{"TERM": "dumb"}, false},
	} {
		if got := wantsColours(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if Process().Terminal != Process().Colour { // whatever the output of this test is
		t.Error("what is no terminal gets colours")
	}
	inWorld(t, func(w *world) {
		shown := func(colour bool, args ...string) string {
			var text bytes.Buffer
			env := Env{Streams: out.Streams{Out: &text, Err: &text, Colour: colour}, Options: []nats.Option{natstest.Dialer()}}
			Run(w.Context(), env, append([]string{"--server", w.srv.URL()}, args...))
			return text.String()
		}
		for _, args := range [][]string{
			{"get", "websites"}, {"get", "--not-ok"}, {"describe", "websites/shop/blog"}, {"why", "websites/shop/blog"},
			{"tree", "websites/shop/blog"}, {"top"}, {"doctor"}, {"events"},
		} {
			coloured, plain := shown(true, args...), shown(false, args...)
			if !strings.Contains(coloured, "\x1b[3") || strings.Contains(plain, "\x1b") ||
				strings.Contains(shown(true, append(args, "--no-color")...), "\x1b") {
				t.Errorf("%v is coloured\n%q\nand plain\n%q", args, coloured, plain)
			}
			if json := shown(true, append(args, "-o", "json")...); strings.Contains(json, "\x1b") {
				t.Errorf("%v -o json has colours\n%q", args, json)
			}
		}
	})
}

package out

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"
)

func TestYAMLHasWhatWasSaidAndNothingThatATerminalMustNotSee(t *testing.T) {
	for _, text := range []string{"plain", "two\nlines", "tab\tbed", "\x1b[31mred", "right \u202e left", "\u0085next", "a: b # c"} {
		var printed bytes.Buffer
		s := Streams{Out: &printed}
		if err := s.YAML(map[string]any{"says": text, "n": json.Number("9007199254740993")}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{"\x1b", "\u202e", "\u0085"} {
			if bytes.Contains(printed.Bytes(), []byte(r)) {
				t.Errorf("%q is printed raw: %q", text, printed.String())
			}
		}
		var read map[string]any
		if err := yaml.Unmarshal(printed.Bytes(), &read); err != nil || read["says"] != text {
			t.Errorf("%q is read as %q, %v, of %q", text, read["says"], err, printed.String())
		}
	}
}

func TestYAMLIsCompactAndKeepsNumbers(t *testing.T) {
	var printed bytes.Buffer
	s := Streams{Out: &printed}
	if err := s.YAML(map[string]any{"a": []any{json.Number("36893488147419103232"), json.Number("1e400"), json.Number("-0.0"),
		map[string]any{"b": "on", "c": json.Number("1.10"), "d": nil, "e": []any{}, "f": map[string]any{}, "g": "12", "h": ""}}}); err != nil {
		t.Fatal(err)
	}
	const want = "a:\n- 36893488147419103232\n- 1e400\n- -0.0\n- b: \"on\"\n  c: 1.10\n  d: null\n  e: []\n  f: {}\n  g: \"12\"\n  h: \"\"\n"
	if printed.String() != want {
		t.Errorf("got\n%s\nwant\n%s", printed.String(), want)
	}
}

// TestWhatIsSlowIsTold after a second, and never when it is done: nothing writes beside what follows.
func TestWhatIsSlowIsTold(t *testing.T) {
	for takes, want := range map[time.Duration]string{
		0: "", time.Second - 1: "", time.Second: "", time.Second + 1: "Looking\n", time.Minute: "Looking\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var told bytes.Buffer
			done := (&Streams{Err: &told}).TellIfSlow("Looking")
			time.Sleep(takes)
			done()
			got := told.String()                     // a race if it is told beside this
			if takes != time.Second && got != want { // just then either may be first
				t.Errorf("after %v: %q", takes, got)
			}
			time.Sleep(time.Minute)
			if told.String() != got {
				t.Errorf("after %v: %q is told when it is done", takes, told.String()[len(got):])
			}
		})
	}
}

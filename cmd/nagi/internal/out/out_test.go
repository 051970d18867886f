package out

import (
	"bytes"
	"encoding/json"
	"testing"

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

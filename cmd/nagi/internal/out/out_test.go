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

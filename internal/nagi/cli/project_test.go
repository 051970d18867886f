package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
)

// TestAProjectIsMade by the examples of its commands. What it makes is built and run by the tests of package project.
func TestAProjectIsMade(t *testing.T) {
	source, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	run := func(args ...string) (ran, string) {
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), Env{Streams: out.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}}, args)
		return ran{stdout.String(), stderr.String(), code}, strings.Join(args, " ")
	}
	r, line := run("init", "nothing")
	if r.code != CodeUsage || !strings.Contains(r.err, "--nagi-source") {
		t.Errorf("%s, with no release: code %d: %s", line, r.code, r.err)
	}
	example := words((&tool{}).initCommand().Example)
	r, line = run(append(example[1:], "--nagi-source", source, "--tidy=false")...)
	if r.code != 0 || !strings.Contains(r.out, "websites/internal/controllers/website.go\n") {
		t.Fatalf("%s: code %d\n%s%s", line, r.code, r.out, r.err)
	}
	if r, line = run(append(example[1:], "--nagi-source", source)...); r.code != CodeUsage {
		t.Errorf("%s, again: code %d: %s", line, r.code, r.err)
	}
	t.Chdir("websites")
	r, line = run(words((&tool{}).createKindCommand().Example)[1:]...)
	if r.code != 0 {
		t.Fatalf("%s: code %d\n%s%s", line, r.code, r.out, r.err)
	}
	r, line = run("create", "kind", "Skin", "-o", "json")
	made := madeFiles{}
	if err := json.Unmarshal([]byte(r.out), &made); err != nil || made.Directory != "." ||
		!slices.Contains(made.Files, "examples/skin.yaml") {
		t.Errorf("%s: %v\n%s%s", line, err, r.out, r.err)
	}
	r, line = run("init", "../other", "--nagi-source", source, "--tidy=false", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &made); err != nil || made.Directory != "../other" ||
		!slices.Contains(made.Files, "../other/main.go") {
		t.Errorf("%s: %v\n%s%s", line, err, r.out, r.err)
	}
	if text, err := os.ReadFile("examples/theme.yaml"); err != nil || !strings.Contains(string(text), "kind: Theme\n") {
		t.Errorf("%s, %v", text, err)
	}
}

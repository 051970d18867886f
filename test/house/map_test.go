package house

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// theMap is the page whose tables name each room with its rule.
const theMap = root + "/docs/architecture.md"

// rowOfMap is a row of these tables: a package below internal/, and what it does.
var rowOfMap = regexp.MustCompile(`(?m)^\| (internal/[\w/]+) \| (.+) \|$`)

// TestTheMapNamesEachRoom with the first sentence of its package comment, so that the two cannot drift apart.
func TestTheMapNamesEachRoom(t *testing.T) {
	page, err := os.ReadFile(theMap)
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]string{}
	for _, row := range rowOfMap.FindAllStringSubmatch(string(page), -1) {
		if drawn[row[1]] != "" {
			t.Errorf("%s names %s twice", theMap, row[1])
		}
		drawn[row[1]] = row[2]
	}
	for _, r := range rooms(t) {
		if !strings.HasPrefix(r.path, "internal/") {
			continue
		}
		if want := firstSentence(t, r); drawn[r.path] != want {
			t.Errorf("%s has %q of a room; want the row\n| %s | %s |", theMap, drawn[r.path], r.path, want)
		}
		delete(drawn, r.path)
	}
	for path := range drawn {
		t.Errorf("%s names %s, which is no package", theMap, path)
	}
}

// fileOfMap is a Go file that the page names; one without a folder is in internal/engine. functionOfMap is a function that
// it names with its file behind it.
var (
	fileOfMap     = regexp.MustCompile(`[\w/]+\.go`)
	functionOfMap = regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`\\s\\(([\\w/]+\\.go)\\)")
)

// TestTheMapLeadsToFilesAndFunctionsThatExist, so that a move or a rename mends the page.
func TestTheMapLeadsToFilesAndFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile(theMap)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		if !strings.Contains(name, "/") {
			name = "internal/engine/" + name
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("%s names %s: %v", theMap, name, err)
		}
		return string(source)
	}
	for _, name := range fileOfMap.FindAllString(string(page), -1) {
		read(name)
	}
	functions := functionOfMap.FindAllStringSubmatch(string(page), -1)
	for _, f := range functions {
		defined := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )` + f[1] + `\b`)
		if source := read(f[2]); source != "" && !defined.MatchString(source) {
			t.Errorf("%s looks for %s in %s, which does not define it", theMap, f[1], f[2])
		}
	}
	if len(functions) < 30 {
		t.Errorf("only %d functions with their files were read", len(functions))
	}
}

// firstSentence returns the first sentence of a package's comment, without "Package x".
func firstSentence(t *testing.T, r *room) string {
	t.Helper()
	found := ""
	for name := range r.files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, r.path, name), nil,
			parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc == nil {
			continue
		}
		if found != "" {
			t.Errorf("%s has two package comments, one of them in %s", r.path, name)
		}
		found = new(doc.Package).Synopsis(file.Doc.Text())
	}
	start := "Package " + filepath.Base(r.path) + " "
	sentence, ok := strings.CutPrefix(found, start)
	if !ok {
		t.Errorf("the comment of package %s begins with %q, want %q", r.path, found, start)
	}
	return strings.TrimSuffix(sentence, ".")
}

// Package coming holds the pages for those who come from other runtimes to code that is compiled.
package coming

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// folders are where the blocks of a page are, by the label on the line before them. A page without such a label has no
// blocks of Go.
var folders = map[string]string{"Before:": "before", "After:": "after", "Kumori:": "kumori"}

// blockOfPage is a block of Go with the label before it.
var blockOfPage = regexp.MustCompile("(?s)([^\n]*)\n+```go\n(.*?\n)```\n")

// dedented takes the indentation of the first line off all lines.
func dedented(block string) string {
	indent := block[:len(block)-len(strings.TrimLeft(block, "\t"))]
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	return strings.Join(lines, "\n")
}

// holds reports whether a source has a block, whole lines of it, at any depth.
func holds(source, block string) bool {
	wanted := strings.Split(dedented(block), "\n")
	lines := strings.Split(source, "\n")
	for start := 0; start+len(wanted) <= len(lines); start++ {
		if strings.TrimLeft(lines[start], "\t") == wanted[0] &&
			dedented(strings.Join(lines[start:start+len(wanted)], "\n")) == strings.Join(wanted, "\n") {
			return true
		}
	}
	return false
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources are the Go files of a folder.
func sources(t *testing.T, folder string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			found = append(found, read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEachBlockOfThePagesIsCodeThatIsCompiled(t *testing.T) {
	pages, err := filepath.Glob("../../docs/from-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages (%v)", err)
	}
	for _, page := range pages {
		text := read(t, page)
		blocks := blockOfPage.FindAllStringSubmatch(text, -1)
		if len(blocks) != strings.Count(text, "```go\n") {
			t.Errorf("%s: %d blocks were read, it has %d", page, len(blocks), strings.Count(text, "```go\n"))
		}
		for _, block := range blocks {
			folder, ok := folders[strings.TrimSpace(block[1])]
			if !ok {
				t.Errorf("%s: no label, but %q, before the block\n%s", page, block[1], block[2])
				continue
			}
			compiled := false
			for _, source := range sources(t, folder) {
				compiled = compiled || holds(source, block[2])
			}
			if !compiled {
				t.Errorf("%s: no file in test/coming/%s has the block\n%s", page, folder, block[2])
			}
		}
	}
}

// TestABlockThatDriftsIsNoticed: a test that finds everything would pass.
func TestABlockThatDriftsIsNoticed(t *testing.T) {
	source := "func f() {\n\tif x {\n\t\tg()\n\t}\n}\n"
	for block, want := range map[string]bool{
		"if x {\n\tg()\n}\n":                    true,
		"\tif x {\n\t\tg()\n\t}\n":              true,
		"func f() {\n\tif x {\n\t\tg()\n\t}\n}": true,
		"if x {\n\th()\n}\n":                    false,
		"if x {\n}\n":                           false,
		"f() {\n":                               false,
	} {
		if holds(source, block) != want {
			t.Errorf("%q: found %v, want %v", block, !want, want)
		}
	}
}

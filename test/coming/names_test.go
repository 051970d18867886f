package coming

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported are the exported names of the Go files of the repository: functions, methods, types, values, fields.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			case *ast.Field:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestEachNameOfNagiInTheTablesExists: the names in code in the second column of the pages' tables, which is ours.
func TestEachNameOfNagiInTheTablesExists(t *testing.T) {
	pages, err := filepath.Glob("../../docs/from-*.md")
	if err != nil {
		t.Fatal(err)
	}
	known, looked := exported(t), 0
	code, name := regexp.MustCompile("`[^`]+`"), regexp.MustCompile(`\b[A-Z][a-z]\w+`)
	for _, page := range append(pages, "../../docs/comparison.md", "../../README.md") {
		for line := range strings.Lines(read(t, page)) {
			columns := strings.Split(line, "|")
			if !strings.HasPrefix(line, "|") || len(columns) < 4 {
				continue
			}
			for _, span := range code.FindAllString(columns[2], -1) {
				for _, found := range name.FindAllString(span, -1) {
					if looked++; !known[found] {
						t.Errorf("%s: %s in %s is no exported name", page, found, span)
					}
				}
			}
		}
	}
	if looked < 150 {
		t.Errorf("only %d names were found", looked)
	}
}

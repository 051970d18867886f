package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What people copy: example programs, Example functions, the README and docs.

// snippet is a piece of Go that people copy.
type snippet struct {
	where string
	code  string // a whole file
}

// snippets are all that people copy and that read a lister.
func snippets(t *testing.T) (found []snippet) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && strings.HasPrefix(entry.Name(), ".") && path != root {
				return filepath.SkipDir
			}
			return err
		}
		isExample := strings.HasPrefix(entry.Name(), "example") && strings.HasSuffix(entry.Name(), "_test.go")
		isProgram := strings.HasSuffix(path, ".go") && strings.HasPrefix(path, filepath.Join(root, "examples"))
		isProse := strings.HasSuffix(path, ".md")
		if !isExample && !isProgram && !isProse {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !isProse {
			found = append(found, snippet{path, string(data)})
			return nil
		}
		for _, block := range strings.Split(string(data), "```go\n")[1:] {
			block, _, _ := strings.Cut(block, "```")
			found = append(found, snippet{path, "package p\n\n" + block})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readsItsPrimary reports whether a statement reads the primary that is reconciled: x, err := ….Lister().Get(key), or
// of req.Key.
func readsItsPrimary(statement ast.Stmt) bool {
	assigned, ok := statement.(*ast.AssignStmt)
	if !ok || len(assigned.Rhs) != 1 {
		return false
	}
	call, ok := assigned.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	get, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || get.Sel.Name != "Get" {
		return false
	}
	lister, ok := get.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, ok := lister.Fun.(*ast.SelectorExpr)
	if !ok || of.Sel.Name != "Lister" {
		return false
	}
	switch key := call.Args[0].(type) {
	case *ast.Ident:
		return key.Name == "key"
	case *ast.SelectorExpr:
		return key.Sel.Name == "Key"
	}
	return false
}

// tellsGone reports whether a statement asks first whether an error is that of a primary that is gone.
func tellsGone(statement ast.Stmt) bool {
	asks := func(of ast.Node) (asks bool) {
		ast.Inspect(of, func(n ast.Node) bool {
			name, ok := n.(*ast.SelectorExpr)
			asks = asks || ok && name.Sel.Name == "IsNotFound"
			return !asks
		})
		return asks
	}
	switch statement := statement.(type) {
	case *ast.IfStmt:
		return asks(statement.Cond)
	case *ast.SwitchStmt:
		return asks(statement.Body)
	}
	return false
}

// forgetful returns where a snippet reads its primary and does not tell one that is gone from one that cannot be read.
// read counts the places where it reads one.
func forgetful(s snippet) (at []string, read int, err error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, s.where, s.code, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		for i, statement := range block.List {
			if !readsItsPrimary(statement) {
				continue
			}
			read++
			if i+1 == len(block.List) || !tellsGone(block.List[i+1]) {
				at = append(at, positions.Position(statement.Pos()).String())
			}
		}
		return true
	})
	return at, read, nil
}

// TestWhatPeopleCopyTellsAPrimaryThatIsGone from one that cannot be read: a reconciler that returns the lister's
// NotFound fails its own teardown for ever, and one that takes each error for that says that it has cleaned up.
func TestWhatPeopleCopyTellsAPrimaryThatIsGone(t *testing.T) {
	total := 0
	for _, s := range snippets(t) {
		if !strings.Contains(s.code, "Lister()") {
			continue
		}
		at, read, err := forgetful(s)
		if err != nil {
			t.Errorf("%s: a snippet that reads a lister is not Go: %v", s.where, err)
		}
		total += read
		for _, where := range at {
			t.Errorf("%s: ask apierrors.IsNotFound first, and return no error then", where)
		}
	}
	if total < 15 {
		t.Errorf("only %d reads of primaries were found: is the way to find them still right?", total)
	}
}

// TestWhoForgetsThatAPrimaryIsGoneIsFound: a test that finds nothing would pass.
func TestWhoForgetsThatAPrimaryIsGoneIsFound(t *testing.T) {
	for body, forgets := range map[string]bool{
		"s, err := l.Lister().Get(req.Key)\nif err != nil { return err }":                                 true,
		"s, err := l.Lister().Get(key)\nif err != nil { return nil }":                                     true,
		"s, err := l.Lister().Get(key)\nuse(s, err)":                                                      true,
		"s, err := l.Lister().Get(key)":                                                                   true,
		"s, err := l.Lister().Get(key)\nif err != nil { return err }\nif apierrors.IsNotFound(err) {}":    true,
		"s, err := l.Lister().Get(key)\nif apierrors.IsNotFound(err) { return nil }":                      false,
		"s, err := l.Lister().Get(key)\nswitch {\ncase apierrors.IsNotFound(err): return nil\n}":          false,
		"s, err := l.Lister().Get(\"front\")\nif err != nil { return err }":                               false,
		"s, err := l.Lister().Get(site.Spec.Plan)\nif err != nil { return err }":                          false,
		"f := func() error {\ns, err := l.Lister().Get(key)\nif err != nil { return err }\nreturn nil\n}": true,
	} {
		at, _, err := forgetful(snippet{"x.go", "package p\n\nfunc f() error {\n" + body + "\n}\n"})
		if err != nil || (len(at) > 0) != forgets {
			t.Errorf("%q: found at %v, error %v", body, at, err)
		}
	}
}

package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// deleteCalls are the files that call what deletes something at a server, and why they may. What the runtime deletes of
// others goes through internal/deletes. A new line here is a new way to delete: let it go through the guard.
var deleteCalls = map[string]string{
	"internal/deletes/round.go":      "the guard",
	"internal/lifecycle/cascade.go":  "asks the guard",
	"internal/lifecycle/unwanted.go": "asks the guard",
	"internal/kubesource/source.go":  "with a permit of the guard",
	"internal/source/nats.go":        "with a permit of the guard",
	"internal/apisource/source.go":   "with a permit of the guard",
	"internal/lifecycle/anchor.go":   "the runtime's own record, at the end of a teardown",
	"kube/delete.go":                 "the call of a user",
	"kube/deleter.go":                "the request",
	"external/apply.go":              "the call of a user: external.Reconcile of what is absent",
	"traces/driver.go":               "passes the call of a user on",
}

// deleters are the names of what deletes.
var deleters = []string{"Delete", "DeleteSeen", "DeleteCollection", "Remove", "Purge"}

// notDeleters are packages, and a table, that have these names for something else.
var notDeleters = []string{"slices", "maps", "heap", "container", "operation", "causes"}

// TestOnlyTheGuardDeletes: whoever else deletes what others have made leaves out its checks.
func TestOnlyTheGuardDeletes(t *testing.T) {
	found := map[string][]token.Position{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(notRooms, relative) || relative != "." && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at, err := deletesIn(relative, string(text))
		if len(at) > 0 {
			found[filepath.ToSlash(relative)] = at
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, at := range found {
		if deleteCalls[file] == "" {
			t.Errorf("%v: it deletes: let it go through internal/deletes, or say in deleteCalls why it may", at)
		}
	}
	for file := range deleteCalls {
		if found[file] == nil {
			t.Errorf("deleteCalls has %s, which deletes nothing", file)
		}
	}
}

// TestACallThatDeletesIsNoticed tests the reader itself.
func TestACallThatDeletesIsNoticed(t *testing.T) {
	for body, want := range map[string]int{
		"s.Remove(ctx, obj)":                         1,
		"s.config.Deleter.Delete(under(ctx), obj)":   1,
		"remove := s.Remove; remove(ctx, obj)":       1,
		"defer client.DeleteSeen(ctx, r)":            1,
		"set.Delete(key); list.Remove(element)":      0, // of a set: without a context
		"x = slices.Delete(x, 0, 1)":                 0,
		"return operation.Of(operation.Delete)":      0,
		"_ = func() error { return s.Delete(c, o) }": 1,
	} {
		at, err := deletesIn("x.go", "package x\n\nfunc f() {\n"+body+"\n}\n")
		if err != nil || len(at) != want {
			t.Errorf("%s: found %v, %v; want %d", body, at, err, want)
		}
	}
}

// deletesIn returns where a file calls, or hands on, what deletes. A call has a context, and what is to go.
func deletesIn(name, text string) (found []token.Position, err error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	calls := map[*ast.SelectorExpr]*ast.CallExpr{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				calls[method] = call
			}
		}
		method, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(deleters, method.Sel.Name) {
			return true
		}
		of, _ := method.X.(*ast.Ident)
		if field, ok := method.X.(*ast.SelectorExpr); ok {
			of = field.Sel
		}
		if of != nil && slices.Contains(notDeleters, of.Name) {
			return true
		}
		if call := calls[method]; call == nil || len(call.Args) > 1 {
			found = append(found, positions.Position(method.Pos()))
		}
		return true
	})
	return found, nil
}

package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// deleteCalls are the functions that call what deletes something at a server, by file and how often, and why they may.
// What the runtime deletes of others goes through internal/deletes, so that a guard and the rounds of its deletes are
// made in few places, too. A new line here is a new way to delete: let it go through the guard.
var deleteCalls = map[string]struct {
	calls int
	why   string
}{
	"internal/deletes/round.go Delete":             {1, "the guard, with the permit that it makes"},
	"internal/engine/deletes.go newGuard":          {1, "makes the guard of a controller"},
	"internal/lifecycle/absence.go absence":        {1, "begins the deletes of what a primary owned that is gone"},
	"internal/lifecycle/prune.go After":            {1, "begins those of what a primary does not want"},
	"internal/lifecycle/cascade.go remove":         {1, "asks the guard"},
	"internal/lifecycle/unwanted.go removeOne":     {1, "asks the guard"},
	"internal/lifecycle/orphansdelete.go deleteOf": {2, "begins those that an operator ordered, and asks the guard"},
	"internal/kubesource/source.go Remove":         {1, "with a permit of the guard"},
	"internal/source/nats.go Remove":               {1, "with a permit of the guard"},
	"internal/apisource/source.go Remove":          {2, "with a permit of the guard: as it was seen, or by its id"},

	"internal/lifecycle/anchor.go RemoveRecordWithoutAnchor": {1, "the runtime's own record, where nothing is owed"},
	"internal/lifecycle/anchor.go removeAnchor":              {1, "the runtime's own record, at the end of a teardown"},

	"entity/deleteall.go deleteChosen": {1, "the call of a user, who confirms the number of many"},

	"internal/shards/lease.go leave": {1, "the member's own lease, when nothing of it runs any more"},

	"kube/delete.go Delete":    {2, "the call of a user, and the deleter of a handle"},
	"kube/deleter.go Delete":   {1, "the request"},
	"kube/planned.go Delete":   {2, "passes the request on, and in a plan as a dry run"},
	"external/apply.go remove": {1, "the call of a user: external.Reconcile of what is absent"},
	"traces/driver.go Delete":  {1, "passes the call of a user on"},

	"internal/nagi/page/delete.go remove": {1, "what a user looks at, counts and confirms, at the revision that was shown"},
	"internal/nagi/cli/prune.go remove":   {1, "what a user names, counts and confirms, at the revision that was counted"},
}

// deleters are the names of what deletes, and of what makes a guard and begins its deletes.
var deleters = []string{"Delete", "DeleteSeen", "DeleteCollection", "Remove", "Purge", "OfGone", "OfUnwanted"}

// notDeleters are packages, and a table, that have these names for something else.
var notDeleters = []string{"slices", "maps", "heap", "container", "operation", "causes"}

// TestOnlyTheGuardDeletes: whoever else deletes what others have made leaves out its checks.
func TestOnlyTheGuardDeletes(t *testing.T) {
	found := map[string][]token.Position{}
	for _, r := range rooms(t) {
		for name := range r.files {
			path := r.path + "/" + name
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			in, err := deletesIn(path, string(text))
			if err != nil {
				t.Fatal(err)
			}
			for function, at := range in {
				found[path+" "+function] = at
			}
		}
	}
	for function, at := range found {
		if len(at) != deleteCalls[function].calls {
			t.Errorf("%s deletes at %v, and deleteCalls has %d: let it go through internal/deletes, or say why it may",
				function, at, deleteCalls[function].calls)
		}
	}
	for function := range deleteCalls {
		if found[function] == nil {
			t.Errorf("deleteCalls has %s, which deletes nothing", function)
		}
	}
}

// TestACallThatDeletesIsNoticed tests the reader itself.
func TestACallThatDeletesIsNoticed(t *testing.T) {
	for body, want := range map[string]int{
		"s.Remove(ctx, obj)":                            1,
		"s.config.Deleter.Delete(under(ctx), obj)":      1,
		"remove := s.Remove; remove(ctx, obj)":          1,
		"defer client.DeleteSeen(ctx, r)":               1,
		"rest.Delete().Name(name).Do(ctx)":              1,
		"guard := deletes.New(deletes.Config{})":        1,
		"g.OfGone(key, all)":                            1,
		"set.Delete(key); list.Remove(element)":         0, // of a set: without a context
		"x = slices.Delete(x, 0, 1)":                    0,
		"return operation.Of(operation.Delete)":         0,
		"_ = func() error { return s.Delete(c, o) }":    1,
		"a.Delete(ctx, x); _ = b.Delete(ctx, x) == nil": 2,
	} {
		at, err := deletesIn("x.go", "package x\n\nfunc f() {\n"+body+"\n}\n")
		if err != nil || len(at["f"]) != want {
			t.Errorf("%s: found %v, %v; want %d", body, at, err, want)
		}
	}
}

// deletesIn returns where a file calls, or hands on, what deletes, by function; "" is outside of all. A call has a
// context and what is to go, or, as the client of a REST API, neither.
func deletesIn(name, text string) (found map[string][]token.Position, err error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found = map[string][]token.Position{}
	for _, declaration := range file.Decls {
		function := ""
		if f, ok := declaration.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		calls := map[*ast.SelectorExpr]*ast.CallExpr{}
		ast.Inspect(declaration, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok {
					calls[method] = call
				}
			}
			if method, ok := n.(*ast.SelectorExpr); ok && isDeleter(method) {
				if isCallOrValue(method, calls[method]) {
					found[function] = append(found[function], positions.Position(method.Pos()))
				}
			}
			return true
		})
	}
	return found, nil
}

// isCallOrValue reports whether what has the name of a deleter is one: a set has no context, and a source takes its
// handlers off without any argument.
func isCallOrValue(method *ast.SelectorExpr, call *ast.CallExpr) bool {
	switch {
	case call == nil || isOf(method, "deletes"):
		return true
	case len(call.Args) == 0:
		return method.Sel.Name == "Delete"
	}
	return len(call.Args) > 1
}

func isDeleter(method *ast.SelectorExpr) bool {
	if isOf(method, "deletes") {
		return method.Sel.Name == "New"
	}
	return slices.Contains(deleters, method.Sel.Name) && !slices.ContainsFunc(notDeleters, func(name string) bool {
		return isOf(method, name)
	})
}

// isOf reports whether a method is one of the package, variable or field of that name.
func isOf(method *ast.SelectorExpr, name string) bool {
	of, _ := method.X.(*ast.Ident)
	if field, ok := method.X.(*ast.SelectorExpr); ok {
		of = field.Sel
	}
	return of != nil && of.Name == name
}

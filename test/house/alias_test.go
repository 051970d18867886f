package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatIsDeclaredInAnInternalRoomIsDocumentedWhereUsersLook: the comment of an alias in a public package names each
// exported field of the struct, or method of the interface, that it stands for.
func TestWhatIsDeclaredInAnInternalRoomIsDocumentedWhereUsersLook(t *testing.T) {
	found := 0
	for _, r := range rooms(t) {
		if strings.HasPrefix(r.path, "internal/") {
			continue
		}
		for name, alias := range aliases(t, r.path) {
			for _, member := range members(t, alias.of, alias.name) {
				found++
				if !regexp.MustCompile(`\b` + member + `\b`).MatchString(alias.doc) {
					t.Errorf("%s: the comment of %s does not say what %s is", r.path, name, member)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d members were found: this test looks past them", found)
	}
}

type alias struct{ doc, of, name string }

// aliases are the exported aliases of a package for types of the module's internal packages, by name.
func aliases(t *testing.T, path string) map[string]alias {
	all := map[string]alias{}
	eachType(t, path, func(file *ast.File, doc string, spec *ast.TypeSpec) {
		selector, ok := spec.Type.(*ast.SelectorExpr)
		if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
			return
		}
		for _, imported := range file.Imports {
			of, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module+"/internal/")
			if ours && filepath.Base(of) == selector.X.(*ast.Ident).Name {
				all[spec.Name.Name] = alias{doc, "internal/" + of, selector.Sel.Name}
			}
		}
	})
	return all
}

// members are the exported fields or methods of a type, those of what it embeds apart.
func members(t *testing.T, path, name string) (names []string) {
	if further, ok := aliases(t, path)[name]; ok {
		return members(t, further.of, further.name)
	}
	eachType(t, path, func(_ *ast.File, _ string, spec *ast.TypeSpec) {
		var fields *ast.FieldList
		switch of := spec.Type.(type) {
		case *ast.StructType:
			fields = of.Fields
		case *ast.InterfaceType:
			fields = of.Methods
		}
		if spec.Name.Name != name || fields == nil {
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				if name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	})
	return names
}

// eachType calls f with each type of a package, and its comment.
func eachType(t *testing.T, path string, f func(file *ast.File, doc string, spec *ast.TypeSpec)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				spec := spec.(*ast.TypeSpec)
				f(file, general.Doc.Text()+spec.Doc.Text(), spec)
			}
		}
	}
}

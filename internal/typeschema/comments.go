package typeschema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

// comments are those of types and fields, by "package.Type" and "package.Type.Field".
type comments map[string]comment

type comment struct {
	text    string
	markers []marker
}

// Reflection knows no comments. The source is read at run time, once for each type that is described, because the other
// way is a generator that each user would have to run again after each change of a comment, and that gets stale unseen.

// readComments reads the Go files below the root of a file system, as of an embed.FS. Tests are left out.
func readComments(source fs.FS) (comments, error) {
	found := comments{}
	if source == nil {
		return found, nil
	}
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.ParseComments)
		if err == nil {
			found.add(file)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the comments of its Go files: %w", err)
	}
	return found, nil
}

func (c comments) add(file *ast.File) {
	previous := file.Name.End()
	for _, decl := range file.Decls {
		if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
			above := previous
			for _, spec := range decl.Specs {
				c.addType(file, spec.(*ast.TypeSpec), above, decl.Doc)
				above = spec.End()
			}
		}
		previous = decl.End()
	}
}

// addType also reads the markers in comments that stand above the type, after what is declared before it.
func (c comments) addType(file *ast.File, spec *ast.TypeSpec, above token.Pos, doc *ast.CommentGroup) {
	name := file.Name.Name + "." + spec.Name.Name
	of := commentOf(spec.Doc)
	if of.text == "" {
		of.text = commentOf(doc).text
	}
	of.markers = nil
	for _, group := range file.Comments {
		if group.Pos() > above && group.End() < spec.Name.Pos() {
			of.markers = append(of.markers, commentOf(group).markers...)
		}
	}
	c[name] = of
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range structure.Fields.List {
		of := commentOf(f.Doc)
		if of.text == "" {
			of.text = commentOf(f.Comment).text
		}
		for _, ident := range f.Names {
			c[name+"."+ident.Name] = of
		}
	}
}

func commentOf(group *ast.CommentGroup) (c comment) {
	if group == nil {
		return c
	}
	var text []string
	for line := range strings.Lines(group.Text()) {
		line = strings.TrimSpace(line)
		if said, ok := strings.CutPrefix(line, "+"); ok {
			c.markers = append(c.markers, markerOf(said))
			continue
		}
		text = append(text, line)
	}
	c.text = strings.TrimSpace(strings.Join(text, "\n"))
	return c
}

// keyOf is that of a type, or of one of its fields. What a generic type is made with is left out.
func keyOf(t reflect.Type, field string) string {
	name, _, _ := strings.Cut(t.String(), "[")
	if field != "" {
		name += "." + field
	}
	return name
}

func (c comments) markersOf(t reflect.Type, field string) []marker { return c[keyOf(t, field)].markers }

// comment says what a type is for: as its source says, or as types of Kubernetes say at run time. Of fields see
// fieldComment: the library does not know in which struct one is.
func (d *deriver) comment(t reflect.Type, field string) string {
	if of := d.source[keyOf(t, "")]; field == "" && of.text != "" {
		return of.text
	}
	if field != "" || t.Kind() != reflect.Struct {
		return ""
	}
	for f := range t.Fields() {
		if f.Anonymous {
			return "" // the method may be that of what is embedded
		}
	}
	return swaggerDoc(t)[""]
}

func (d *deriver) fieldComment(m jsonshape.Member) string {
	if of := d.source[keyOf(m.In, m.Field.Name)]; of.text != "" {
		return of.text
	}
	return swaggerDoc(m.In)[m.Name]
}

// swaggerDoc is what types of Kubernetes say of themselves.
func swaggerDoc(t reflect.Type) map[string]string {
	documented, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string })
	if !ok {
		return nil
	}
	return documented.SwaggerDoc()
}

// root is the comment of the type of the documents. Where that is an instance of entity.Object, the user has named it
// by an alias, which reflection does not know: its name is taken to be the kind.
func (c comments) root(t reflect.Type, kind string) comment {
	if of, ok := c[keyOf(t, "")]; ok {
		return of
	}
	for _, name := range slices.Sorted(maps.Keys(c)) { // two packages may have one, and each time the same is taken
		if _, alias, _ := strings.Cut(name, "."); alias == kind {
			return c[name]
		}
	}
	return comment{}
}

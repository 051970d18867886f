package typeschema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// comments are those of types and fields, by "package.Type" and "package.Type.Field".
type comments map[string]comment

type comment struct {
	text    string
	markers []marker
}

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

// comment says what a type or a field is for: as its source says, or as types of Kubernetes say at run time.
func (d *deriver) comment(t reflect.Type, field string) string {
	if of, ok := d.source[keyOf(t, field)]; ok && of.text != "" {
		return of.text
	}
	documented, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string })
	if !ok || t.Kind() != reflect.Struct {
		return ""
	}
	if field == "" {
		for f := range t.Fields() {
			if f.Anonymous {
				return "" // the method may be that of what is embedded
			}
		}
		return documented.SwaggerDoc()[""]
	}
	f, _ := t.FieldByName(field)
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return ""
	}
	return documented.SwaggerDoc()[name]
}

// marker is a comment for a program: "+kubebuilder:validation:Minimum=1".
type marker struct{ name, value string }

func markerOf(text string) marker {
	name, value, _ := strings.Cut(text, "=")
	name = strings.TrimSuffix(strings.TrimSpace(name), ":")
	return marker{strings.TrimPrefix(name, "kubebuilder:"), strings.TrimSpace(value)}
}

const columnMarker = "printcolumn:name"

func (m marker) requires() bool { return m.name == "validation:Required" || m.name == "required" }

// schemaMembers are the members of a schema that markers set, by the name of the marker.
var schemaMembers = map[string]string{
	"Minimum": "minimum", "Maximum": "maximum", "MultipleOf": "multipleOf", "MinLength": "minLength",
	"MaxLength": "maxLength", "MinItems": "minItems", "MaxItems": "maxItems", "MinProperties": "minProperties",
	"MaxProperties": "maxProperties", "UniqueItems": "uniqueItems",
}

// apply adds what a marker says to a schema. It passes over markers that it does not know.
func (m marker) apply(s node) {
	if m.name == "default" {
		s["default"] = jsonOr(m.value)
	}
	rule, ok := strings.CutPrefix(m.name, "validation:")
	if !ok {
		return
	}
	if rule, ok := strings.CutPrefix(rule, "items:"); ok {
		if items := annotated(s, "items"); items != nil {
			marker{"validation:" + rule, m.value}.apply(items)
		}
		return
	}
	switch rule {
	case "Pattern", "Format", "Title":
		s[strings.ToLower(rule)] = unquoted(m.value)
	case "Enum":
		s["enum"] = list(m.value)
	case "ExclusiveMinimum", "ExclusiveMaximum":
		if limit := "m" + rule[len("ExclusiveM"):]; m.value == "true" && s[limit] != nil {
			s["exclusiveM"+limit[1:]] = s[limit]
			delete(s, limit)
		}
	default:
		value := jsonOr(m.value)
		if _, isText := value.(string); schemaMembers[rule] != "" && !isText {
			s[schemaMembers[rule]] = value
		}
	}
}

// list reads "a;b;c" and {"a","b"}.
func list(text string) (values []any) {
	separator := ";"
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		text, separator = strings.TrimSuffix(inner, "}"), ","
	}
	for value := range strings.SplitSeq(text, separator) {
		values = append(values, jsonOr(strings.TrimSpace(value)))
	}
	return values
}

// jsonOr is a value in JSON, or else the text itself.
func jsonOr(text string) any {
	if text == "" {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err == nil && !decoder.More() {
		return value
	}
	return unquoted(text)
}

func unquoted(text string) string {
	for _, quote := range []string{"`", `"`, "'"} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
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

// columns are those that markers name.
func columns(markers []marker) (columns []Column) {
	for _, m := range markers {
		if m.name != columnMarker {
			continue
		}
		var column Column
		for _, said := range arguments("name=" + m.value) {
			name, value, _ := strings.Cut(said, "=")
			value = unquoted(strings.TrimSpace(value))
			switch strings.TrimSpace(name) {
			case "name":
				column.Name = value
			case "type":
				column.Type = value
			case "JSONPath":
				column.Path = "$" + value
			case "description":
				column.Description = value
			case "priority":
				_, _ = fmt.Sscan(value, &column.Priority) // 0 if it is no number
			}
		}
		columns = append(columns, column)
	}
	return columns
}

// arguments splits at commas outside of quotes.
func arguments(text string) (parts []string) {
	var quote rune
	begin := 0
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '`' || r == '\'':
			quote = r
		case r == ',':
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

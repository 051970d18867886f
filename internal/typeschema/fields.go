package typeschema

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

var (
	timeType   = reflect.TypeFor[time.Time]()
	unsafeName = regexp.MustCompile(`[^A-Za-z0-9_]`)
)

// name names the definition of a type: no two types have one name, and it needs no escapes in a reference.
func (d *deriver) name(t reflect.Type) string {
	if name, ok := d.names[t]; ok || t.Name() == "" {
		return name
	}
	base, _, _ := strings.Cut(t.Name(), "[") // of a generic type
	base = unsafeName.ReplaceAllString(base, "_")
	name := base
	for n := 2; d.types[name] != nil; n++ {
		name = fmt.Sprintf("%s%d", base, n)
	}
	d.types[name], d.names[t] = t, name
	return name
}

// members are the fields of a struct as the library is to read them: once more, after it has read those of each struct
// that is embedded, of which it takes the last one of a name. Nil if it reads them right by itself.
func members(t reflect.Type) (fields []reflect.StructField) {
	misread := false
	for _, m := range jsonshape.Of(t).Members {
		name, options, _ := strings.Cut(m.Field.Tag.Get("json"), ",")
		misread = misread || len(m.Through) > 0 || cmp.Or(name, m.Field.Name) != m.Name ||
			strings.Contains(options, "inline")
		tag := m.Name
		if m.Quoted {
			tag += ",string"
		}
		m.Field.Tag = reflect.StructTag(fmt.Sprintf("json:%q ", tag)) + m.Field.Tag // the first one of a key counts
		fields = append(fields, m.Field)
	}
	if !misread {
		return nil
	}
	return fields
}

// adapt makes a schema fit what encoding/json does with a type.
func (d *deriver) adapt(s node, t reflect.Type) {
	t = jsonshape.PointedOr(t)
	if s["$ref"] != nil {
		return
	}
	for _, marker := range d.source.markersOf(t, "") {
		marker.apply(s)
	}
	if mapped(t) != nil || describesItself(t) || t == timeType {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		d.adaptFields(s, t)
	case reflect.Slice, reflect.Array:
		delete(s, "minItems") // an array takes lists of any length
		delete(s, "maxItems")
		if s["contentEncoding"] == "base64" {
			s["pattern"] = base64Pattern
		}
		if items, ok := s["items"].(node); ok {
			d.adapt(items, t.Elem())
		}
	case reflect.Map:
		d.adaptMap(s, t)
	}
}

func (d *deriver) adaptMap(s node, t reflect.Type) {
	if each, ok := s["patternProperties"].(node); ok { // the library's way for integers, which leaves negative ones out
		delete(s, "patternProperties")
		for _, elem := range each {
			s["additionalProperties"] = elem
		}
	}
	switch t.Key().Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s["propertyNames"] = node{"pattern": integerPattern}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s["propertyNames"] = node{"pattern": naturalPattern}
	}
	if each, ok := s["additionalProperties"].(node); ok {
		d.adapt(each, t.Elem())
	}
}

func (d *deriver) adaptFields(s node, t reflect.Type) {
	shape := jsonshape.Of(t)
	if shape.Rest != nil {
		s["additionalProperties"] = true
	}
	properties, _ := s["properties"].(node)
	if !t.Implements(extendedType) { // which may add some
		dropOthers(s, properties, shape)
	}
	for _, m := range shape.Members {
		p := annotated(properties, m.Name)
		if p == nil {
			continue
		}
		d.adapt(p, m.Field.Type)
		if m.Quoted {
			quote(p, m.Field.Type)
		}
		if said := d.fieldComment(m); said != "" && p["description"] == nil {
			p["description"] = said
		}
		for _, marker := range d.source.markersOf(m.In, m.Field.Name) {
			marker.apply(p)
			if marker.requires() {
				required, _ := s["required"].([]any)
				if !slices.Contains(required, any(m.Name)) {
					s["required"] = append(required, m.Name)
				}
			}
		}
		if writesNull(m) {
			properties[m.Name] = nullable(p)
		}
	}
	for _, name := range jsonshape.SecretMembers(t) {
		if p := annotated(properties, name); p != nil {
			p["writeOnly"], p[SecretExtension] = true, true
		}
	}
}

// extendedType are types with a method that the library calls with their schema.
var extendedType = reflect.TypeFor[interface{ JSONSchemaExtend(*jsonschema.Schema) }]()

// dropOthers drops the properties that the library made of fields that are no members.
func dropOthers(s, properties node, shape *jsonshape.Shape) {
	isOther := func(name string) bool {
		m := shape.Lookup(name)
		return m == nil || m.Name != name
	}
	maps.DeleteFunc(properties, func(name string, _ any) bool { return isOther(name) })
	if required, ok := s["required"].([]any); ok {
		required = slices.DeleteFunc(required, func(name any) bool { return isOther(name.(string)) })
		if s["required"] = required; len(required) == 0 {
			delete(s, "required")
		}
	}
}

// quote is for the option "string" of the tag json.
func quote(s node, t reflect.Type) {
	switch jsonshape.PointedOr(t).Kind() {
	case reflect.Bool:
		s["enum"] = []any{"true", "false"}
	case reflect.Float32, reflect.Float64, reflect.String:
	default:
		s["pattern"] = integerPattern
	}
	delete(s, "minimum")
	delete(s, "maximum")
}

// nullable allows null beside what a schema allows.
func nullable(s node) node {
	switch t := s["type"].(type) {
	case string:
		s["type"] = []any{t, "null"}
		if values, ok := s["enum"].([]any); ok {
			s["enum"] = append(values, nil)
		}
	case nil: // what has neither type nor alternatives takes null anyway
		if ref := s["$ref"]; ref != nil {
			delete(s, "$ref")
			s["anyOf"] = []any{node{"$ref": ref}}
		}
		if alternatives, ok := s["anyOf"].([]any); ok {
			s["anyOf"] = append(alternatives, node{"type": "null"})
		}
	}
	return s
}

// writesNull reports whether Go writes null for the zero value of a member.
func writesNull(m jsonshape.Member) bool {
	switch m.Field.Type.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return !m.OmitEmpty && !m.OmitZero
	}
	return false
}

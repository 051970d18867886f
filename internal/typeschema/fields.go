package typeschema

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

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

// shadowing are the fields of a struct that stand before those of the same name in structs embedded in it. The library
// takes the last one of a name, and these once more after the others.
func shadowing(t reflect.Type) (own []reflect.StructField) {
	embeds := false
	for f := range t.Fields() {
		if f.Anonymous {
			embeds = true
		} else {
			own = append(own, f)
		}
	}
	if !embeds {
		return nil
	}
	return own
}

// adapt makes a schema fit what encoding/json does with a type.
func (d *deriver) adapt(s node, t reflect.Type) {
	t = pointed(t)
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
	properties, _ := s["properties"].(node)
	for _, f := range fieldsOf(t) {
		if f.takesRest {
			s["additionalProperties"] = true
			delete(properties, f.Name)
			continue
		}
		p := annotated(properties, f.name)
		if p == nil {
			continue
		}
		d.adapt(p, f.Type)
		if f.quoted {
			quote(p, f.Type)
		}
		for _, marker := range d.source.markersOf(f.in, f.Name) {
			marker.apply(p)
			if marker.requires() {
				required, _ := s["required"].([]any)
				if !slices.Contains(required, any(f.name)) {
					s["required"] = append(required, f.name)
				}
			}
		}
		if f.writesNull() {
			properties[f.name] = nullable(p)
		}
	}
	for _, name := range jsonshape.SecretMembers(t) {
		if p := annotated(properties, name); p != nil {
			p["writeOnly"], p[SecretExtension] = true, true
		}
	}
}

// quote is for the option "string" of the tag json.
func quote(s node, t reflect.Type) {
	switch pointed(t).Kind() {
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

// field is one that becomes a member.
type field struct {
	reflect.StructField
	in        reflect.Type // whose field it is
	name      string       // of the member
	omits     bool         // the zero value is left out
	quoted    bool
	takesRest bool // it takes the members that no field has
}

// writesNull reports whether Go writes null for the zero value.
func (f field) writesNull() bool {
	switch f.Type.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return !f.omits
	}
	return false
}

// fieldsOf are the fields of a struct and of those embedded in it. Of several with one name the outer one counts.
func fieldsOf(t reflect.Type) []field {
	var found []field
	add := func(f field) {
		if !slices.ContainsFunc(found, func(other field) bool { return other.name == f.name }) {
			found = append(found, f)
		}
	}
	within := map[reflect.Type]bool{}
	var collect func(t reflect.Type)
	collect = func(t reflect.Type) {
		if within[t] {
			return
		}
		within[t] = true
		for _, embedded := range []bool{false, true} {
			for i := range t.NumField() {
				f := t.Field(i)
				name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
				inner := pointed(f.Type)
				inlined := f.Anonymous && name == "" && inner.Kind() == reflect.Struct
				switch {
				case name == "-" && options == "" || inlined != embedded || !inlined && !f.IsExported():
				case inlined:
					collect(inner)
				default:
					if name == "" {
						name = f.Name
					}
					add(field{
						StructField: f, in: t, name: name, quoted: has("string"),
						omits:     has("omitempty") || has("omitzero"),
						takesRest: has("embed") && inner.Kind() != reflect.Struct,
					})
				}
			}
		}
	}
	collect(t)
	return found
}

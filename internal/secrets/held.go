package secrets

import (
	stdjson "encoding/json"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
)

// OfValue is Of for the document of one value: it also knows the types of what interfaces in it hold.
func OfValue(value any) (*Fields, error) {
	if value == nil {
		return nil, nil
	}
	t := reflect.TypeOf(value)
	var held []reflect.Type
	if reachesInterface(t, true, map[reach]bool{}) {
		held = heldIn(reflect.ValueOf(value))
	}
	if !slices.ContainsFunc(held, hasSecrets) {
		return Of(t)
	}
	of := build(t, held)
	return of.fields, of.err
}

func hasSecrets(t reflect.Type) bool {
	fields, err := Of(t)
	return fields != nil || err != nil
}

// MayHold reports whether documents that are decoded into a type may put values with secrets into interfaces: only a
// type that decodes itself can.
func MayHold(t reflect.Type) bool { return reachesInterface(t, false, map[reach]bool{}) }

// reach is a type, and whether what is in it counts.
type reach struct {
	t      reflect.Type
	counts bool
}

var decoders = []reflect.Type{reflect.TypeFor[stdjson.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom]()}

// reachesInterface reports whether values of a type have interfaces in them that count: all, or those in a type that
// decodes itself.
func reachesInterface(t reflect.Type, counts bool, seen map[reach]bool) bool {
	counts = counts || t.Kind() != reflect.Interface && slices.ContainsFunc(decoders, func(method reflect.Type) bool {
		return reflect.PointerTo(t).Implements(method)
	})
	at := reach{t, counts}
	if seen[at] {
		return false
	}
	seen[at] = true
	switch t.Kind() {
	case reflect.Interface:
		return counts
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return reachesInterface(t.Elem(), counts, seen)
	case reflect.Map:
		return reachesInterface(t.Key(), counts, seen) || reachesInterface(t.Elem(), counts, seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if isLookedAt(f) && reachesInterface(f.Type, counts, seen) {
				return true
			}
		}
	}
	return false
}

// isLookedAt leaves out what unexported fields point to: that may be in use by others, as the reflection of protobuf.
func isLookedAt(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return f.IsExported() || f.Anonymous
	}
	return true
}

// heldIn returns the types of what interfaces hold in a value.
func heldIn(v reflect.Value) []reflect.Type {
	h := holder{seen: map[any]bool{}}
	h.look(v)
	return h.types
}

type holder struct {
	types []reflect.Type
	seen  map[any]bool
}

// pointer tells values behind pointers apart.
type pointer struct {
	at any
	t  reflect.Type
}

func (h *holder) look(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if t := v.Elem().Type(); !slices.Contains(h.types, t) {
			h.types = append(h.types, t)
		}
		h.look(v.Elem())
	case reflect.Pointer:
		at := pointer{v.UnsafePointer(), v.Type()}
		if !v.IsNil() && !h.seen[at] {
			h.seen[at] = true
			h.look(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && !isScalar(v.Type().Elem()); i++ {
			h.look(v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			h.look(entries.Key())
			h.look(entries.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if isLookedAt(v.Type().Field(i)) {
				h.look(v.Field(i))
			}
		}
	}
}

// isScalar reports whether there is nothing in values of a type.
func isScalar(t reflect.Type) bool { return t.Kind() < reflect.Array || t.Kind() == reflect.String }

package mergediff

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

	methods = []reflect.Type{
		jsonMarshaler, jsonUnmarshaler,
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// faithfulTypes are the results of faithful, which are the same each time.
var faithfulTypes sync.Map // reflect.Type → bool

// faithful reports whether apimachinery's converter does with a type what encoding/json does. The converter takes a
// third of the time, and is made for the types of Kubernetes' own APIs. It also reads and writes unexported fields,
// which panics, and knows neither text methods, arrays, keys that are no strings, nor fields that hide each other.
func faithful(t reflect.Type) bool {
	if known, ok := faithfulTypes.Load(t); ok {
		return known.(bool)
	}
	is := isFaithful(t, map[reflect.Type]bool{})
	faithfulTypes.Store(t, is)
	return is
}

// isFaithful takes the types around t, which are in seen, for faithful: the question is asked of each once.
func isFaithful(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	if t.Kind() == reflect.Pointer && !isPlain(t.Elem()) {
		return t.Implements(jsonMarshaler) && t.Implements(jsonUnmarshaler)
	}
	if !isPlain(t) {
		// A method of the pointer alone is called only for values that have an address.
		return t.Kind() != reflect.Interface && t.Implements(jsonMarshaler) &&
			reflect.PointerTo(t).Implements(jsonUnmarshaler)
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float64, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32,
		reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return true
	case reflect.Pointer, reflect.Slice:
		return isFaithful(t.Elem(), seen)
	case reflect.Map:
		return t.Key().Kind() == reflect.String && isFaithful(t.Key(), seen) && isFaithful(t.Elem(), seen)
	case reflect.Struct:
		return hasFaithfulFields(t, map[string]bool{}, seen)
	}
	return false // of an interface it is not known what it holds
}

// hasFaithfulFields adds the names of the members that the fields of a struct become.
func hasFaithfulFields(t reflect.Type, names map[string]bool, seen map[reflect.Type]bool) bool {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case !f.IsExported():
			return false
		case tag == "-":
			continue
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct || !isPlain(f.Type) || !hasFaithfulFields(f.Type, names, seen) {
				return false
			}
			continue
		case name == "":
			name = f.Name
		}
		if names[name] || strings.ContainsFunc(name, isOdd) || strings.Contains(options, "string") {
			return false
		}
		names[name] = true
		if !isFaithful(f.Type, seen) {
			return false
		}
	}
	return true
}

// isPlain reports whether neither a type nor a pointer to it has a method for its JSON.
func isPlain(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return !slices.ContainsFunc(methods, func(m reflect.Type) bool { return t.Implements(m) || pointer.Implements(m) })
}

// isOdd reports whether names with a character are not read alike by all.
func isOdd(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.$/", r)
}

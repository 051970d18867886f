package mergediff

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
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
		return hasFaithfulFields(t, seen)
	}
	return false // of an interface it is not known what it holds
}

// hasFaithfulFields also reports whether each field is a member, or has the tag that says that it is none.
func hasFaithfulFields(t reflect.Type, seen map[reflect.Type]bool) bool {
	shape := jsonshape.OfStandard(t)
	for _, left := range shape.Left {
		if left.Field.Tag.Get("json") != "-" {
			return false
		}
	}
	for _, m := range shape.Members {
		tag, _, _ := strings.Cut(m.Field.Tag.Get("json"), ",") // the converter takes it for the name, whatever it is
		if !m.Field.IsExported() || m.Field.Anonymous && tag == "" || m.Quoted || m.ByPointer() ||
			slices.ContainsFunc(m.Through, isHidden) || strings.ContainsFunc(cmp.Or(tag, m.Name), isOdd) ||
			!isFaithful(m.Field.Type, seen) {
			return false
		}
	}
	return true
}

// isHidden reports whether the converter does not see that a struct is embedded.
func isHidden(f reflect.StructField) bool { return !f.IsExported() || !isPlain(f.Type) }

// isPlain reports whether neither a type nor a pointer to it has a method for its JSON.
func isPlain(t reflect.Type) bool { return !jsonshape.CodesItself(t) }

// isOdd reports whether names with a character are not read alike by all.
func isOdd(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.$/", r)
}

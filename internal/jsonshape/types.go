package jsonshape

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

var (
	encoders = []reflect.Type{
		reflect.TypeFor[stdjson.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](),
	}
	decoders = []reflect.Type{
		reflect.TypeFor[stdjson.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](),
		reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// EncodesItself reports whether a type, or a pointer to it, has a method that encodes it.
func EncodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(encoders, func(method reflect.Type) bool { return implements(t, method) })
}

// DecodesItself reports whether a type has a method that decodes it. What an interface holds is made anew.
func DecodesItself(t reflect.Type) bool {
	return t.Kind() != reflect.Interface &&
		slices.ContainsFunc(decoders, func(method reflect.Type) bool { return implements(t, method) })
}

// CodesItself reports whether a type has a method that encodes or decodes it.
func CodesItself(t reflect.Type) bool { return EncodesItself(t) || DecodesItself(t) }

func implements(t, method reflect.Type) bool {
	return t.Implements(method) || t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(method)
}

// Pointed returns what a pointer leads to, over any number of pointers; nil if they lead nowhere (type P *P).
func Pointed(t reflect.Type) reflect.Type {
	for seen := map[reflect.Type]bool{}; t.Kind() == reflect.Pointer; t = t.Elem() {
		if seen[t] {
			return nil
		}
		if t.Name() != "" { // only a type with a name can lead back to itself
			seen[t] = true
		}
	}
	return t
}

// PointedOr is Pointed, and the pointer itself where it leads nowhere.
func PointedOr(t reflect.Type) reflect.Type { return cmp.Or(Pointed(t), t) }

// structOf returns the struct that t is, or that can be embedded by it as a pointer; nil if it is another type.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// reaches reports whether a type, or one that values of it have in them, is what is asked for. Fields that are no
// members count: a method may encode or decode them.
func reaches(t reflect.Type, is func(reflect.Type) bool) bool {
	seen := map[reflect.Type]bool{}
	var look func(t reflect.Type) bool
	look = func(t reflect.Type) bool {
		if seen[t] || isOfProtobuf(t) {
			return false
		}
		seen[t] = true
		if is(t) {
			return true
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			return look(t.Elem())
		case reflect.Map:
			return look(t.Key()) || look(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if look(f.Type) {
					return true
				}
			}
		}
		return false
	}
	return look(t)
}

// isOfProtobuf reports whether a type is internal to protobuf. Each generated message has a pointer to the description
// of its type, which all messages share, and which is made while others read it, so that looking at it is a race. It
// has interfaces, and nothing of a document.
func isOfProtobuf(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "google.golang.org/protobuf/internal/")
}

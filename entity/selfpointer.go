package entity

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
)

// checkPointers refuses a type that reaches a pointer to itself, as type P *P. The decoder makes what a pointer leads
// to before it reads anything of it, so that a document with a value there would end the process by stack overflow.
func checkPointers(t reflect.Type, kind string) error {
	if found := selfPointer(t, map[reflect.Type]bool{}); found != nil {
		return fmt.Errorf("entity: kind %s: %v in the type %v is a pointer to itself, into which no JSON value "+
			"can be decoded: put a struct between them, or leave the field out of the JSON (json:\"-\")",
			kind, found, t)
	}
	return nil
}

var decoders = []reflect.Type{reflect.TypeFor[stdjson.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom]()}

// selfPointer returns the first pointer to itself that a decoder of t comes to; nil if there is none.
func selfPointer(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] {
		return nil
	}
	seen[t] = true
	of := t
	for passed := map[reflect.Type]bool{}; of.Kind() == reflect.Pointer; of = of.Elem() {
		if passed[of] {
			return of
		}
		passed[of] = true
	}
	// A type that decodes itself may fill its fields from elsewhere.
	if slices.ContainsFunc(decoders, func(m reflect.Type) bool { return reflect.PointerTo(of).Implements(m) }) {
		return nil
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return selfPointer(of.Elem(), seen)
	case reflect.Struct:
		for f := range of.Fields() {
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if found := selfPointer(f.Type, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

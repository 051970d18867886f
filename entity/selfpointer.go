package entity

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
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

// selfPointer returns the first pointer to itself that a decoder of t comes to; nil if there is none.
func selfPointer(t reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[t] {
		return nil
	}
	seen[t] = true
	of := jsonshape.Pointed(t)
	if of == nil {
		return t
	}
	if jsonshape.DecodesItself(of) { // it may fill its fields from elsewhere
		return nil
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return selfPointer(of.Elem(), seen)
	case reflect.Struct:
		shape := jsonshape.Of(of)
		members := shape.Members
		if shape.Rest != nil {
			members = append(slices.Clip(members), *shape.Rest)
		}
		for _, m := range members {
			if found := selfPointer(m.Field.Type, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

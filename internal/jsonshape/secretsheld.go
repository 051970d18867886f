package jsonshape

import (
	"reflect"
	"slices"
	"unsafe"
)

// SecretsOfValue is SecretsOf for the document of one value: it also knows the types of what interfaces in it hold,
// also below fields that are not exported. What a lock guards there, or what changes atomically, is taken for a secret,
// because it cannot be looked at. What hides in a func, in a channel or behind an unsafe.Pointer is not found.
func SecretsOfValue(value any) (*Secrets, error) {
	if value == nil {
		return nil, nil
	}
	t := reflect.TypeOf(value)
	var held []reflect.Type
	if reaches(t, isInterface) {
		held = heldIn(reflect.ValueOf(value))
	}
	if !slices.ContainsFunc(held, hasSecrets) {
		return SecretsOf(t)
	}
	of := secretsOf(t, held)
	return of.fields, of.err
}

func hasSecrets(t reflect.Type) bool {
	fields, err := SecretsOf(t)
	return fields != nil || err != nil
}

// MayHoldSecrets reports whether documents that are decoded into a type may put values with secrets into interfaces:
// only a type that decodes itself can.
func MayHoldSecrets(t reflect.Type) bool {
	return reaches(t, func(t reflect.Type) bool { return DecodesItself(t) && reaches(t, isInterface) })
}

func isInterface(t reflect.Type) bool { return t.Kind() == reflect.Interface }

// isGuarded reports whether a struct has something of package sync or sync/atomic in it, or is of one of them. What is
// not exported in it may be changed by others while it is looked at, which is a race, and ends the process if it is a
// map.
func isGuarded(t reflect.Type) bool {
	if isOfSync(t) {
		return true
	}
	for f := range t.Fields() {
		if isOfSync(PointedOr(f.Type)) {
			return true
		}
	}
	return false
}

func isOfSync(t reflect.Type) bool { return t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" }

// unseen is the type of what an interface holds that must not be looked at: it may be a secret.
type unseen struct{}

// heldIn returns the types of what interfaces hold in a value.
func heldIn(v reflect.Value) []reflect.Type {
	h := holder{seen: map[spot]bool{}, reaches: map[reflect.Type]bool{}}
	h.look(v)
	return h.types
}

type holder struct {
	types   []reflect.Type
	seen    map[spot]bool
	reaches map[reflect.Type]bool
}

// spot tells the values apart that are found behind pointers.
type spot struct {
	at  unsafe.Pointer
	len int
	t   reflect.Type
}

// look looks no further than it has to: what has no interface in it may be in use by others, as the places of time.
func (h *holder) look(v reflect.Value) {
	if !h.mayHold(v.Type()) || h.wasSeen(v) {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			h.holds(v.Elem().Type())
			h.look(v.Elem())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			h.look(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			h.look(v.Index(i))
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			h.look(entries.Key())
			h.look(entries.Value())
		}
	case reflect.Struct:
		guarded := isGuarded(v.Type())
		for i := range v.NumField() {
			if f := v.Type().Field(i); !guarded || f.IsExported() {
				h.look(v.Field(i))
			} else if h.mayHold(f.Type) {
				h.holds(reflect.TypeFor[unseen]())
			}
		}
	}
}

func (h *holder) holds(t reflect.Type) {
	if !slices.Contains(h.types, t) {
		h.types = append(h.types, t)
	}
}

// mayHold reports whether there may be an interface in values of a type.
func (h *holder) mayHold(t reflect.Type) bool {
	may, known := h.reaches[t]
	if !known {
		may = reaches(t, isInterface)
		h.reaches[t] = may
	}
	return may
}

// wasSeen reports whether a value was looked at before: it may be in itself.
func (h *holder) wasSeen(v reflect.Value) bool {
	at := spot{t: v.Type()}
	switch v.Kind() {
	case reflect.Slice:
		at.len = v.Len()
		fallthrough
	case reflect.Pointer, reflect.Map:
		at.at = v.UnsafePointer()
	default:
		return false
	}
	was := h.seen[at]
	h.seen[at] = true
	return was
}

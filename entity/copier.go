package entity

import (
	"encoding"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"sync"
	"time"
)

// copyInto makes out a deep copy of in. It uses the type's own method if there is one, else the copier of the type.
func copyInto[V any](in, out *V) {
	if c, ok := any(in).(interface{ DeepCopyInto(*V) }); ok {
		c.DeepCopyInto(out)
		return
	}
	if c, ok := any(in).(interface{ DeepCopy() *V }); ok {
		*out = *c.DeepCopy()
		return
	}
	*out = *in
	// out has the right scalars now; the copier replaces what in and out still share.
	if unshare := unsharerOf(reflect.TypeFor[V]()); unshare != nil {
		unshare(reflect.ValueOf(out).Elem())
	}
}

// unsharer gives an addressable value that was copied by assignment its own memory.
type unsharer func(v reflect.Value)

// unsharers caches the unsharer of each type; nil where an assignment is already a deep copy. Its entries never change,
// because types do not.
var unsharers sync.Map // reflect.Type → unsharer

// immutableTypes never change behind their unexported pointers, so sharing them is safe.
var immutableTypes = map[reflect.Type]bool{
	reflect.TypeFor[time.Time]():      true,
	reflect.TypeFor[netip.Addr]():     true,
	reflect.TypeFor[netip.AddrPort](): true,
	reflect.TypeFor[netip.Prefix]():   true,
	reflect.TypeFor[regexp.Regexp]():  true,
}

func unsharerOf(t reflect.Type) unsharer {
	if u, ok := unsharers.Load(t); ok {
		return u.(unsharer)
	}
	b := copierBuilder{building: map[reflect.Type]*unsharer{}}
	u := b.build(t)
	unsharers.Store(t, u)
	return u
}

// copierBuilder knows the types whose unsharers are being built, so that recursive types end.
type copierBuilder struct {
	building map[reflect.Type]*unsharer
}

func (b *copierBuilder) build(t reflect.Type) unsharer {
	if u, ok := unsharers.Load(t); ok {
		return u.(unsharer)
	}
	if immutableTypes[t] {
		return nil
	}
	if later, ok := b.building[t]; ok {
		return func(v reflect.Value) {
			if u := *later; u != nil {
				u(v)
			}
		}
	}
	later := new(unsharer)
	b.building[t] = later
	*later = b.buildKind(t)
	delete(b.building, t)
	return *later
}

func (b *copierBuilder) buildKind(t reflect.Type) unsharer {
	if u := bigUnsharers[t]; u != nil {
		return u
	}
	if u := methodUnsharer(t); u != nil {
		return u
	}
	if t.Kind() == reflect.Struct && codesItself(t) && hidesMemory(t) {
		return unshareByJSON
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.pointer(t)
	case reflect.Slice:
		return b.slice(t)
	case reflect.Map:
		return b.mapping(t)
	case reflect.Struct:
		return b.structure(t)
	case reflect.Array:
		return b.array(t)
	case reflect.Interface:
		return unshareInterface
	default:
		return nil // scalars, strings, functions and channels
	}
}

// bigUnsharers are for numbers that are changed in place, and whose digits are behind unexported fields.
var bigUnsharers = map[reflect.Type]unsharer{
	reflect.TypeFor[big.Int]():   unshareBig((*big.Int).Set),
	reflect.TypeFor[big.Rat]():   unshareBig((*big.Rat).Set),
	reflect.TypeFor[big.Float](): unshareBig((*big.Float).Copy),
}

// unshareBig uses a method that copies one number into another.
func unshareBig[N any](set func(out, in *N) *N) unsharer {
	return func(v reflect.Value) {
		v.Set(reflect.ValueOf(set(new(N), v.Addr().Interface().(*N))).Elem())
	}
}

// methodUnsharer uses the methods that deepcopy-gen writes. A pointer type leaves them to its element type.
func methodUnsharer(t reflect.Type) unsharer {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return nil
	}
	p := reflect.PointerTo(t)
	if m, ok := p.MethodByName("DeepCopyInto"); ok && m.Type.NumIn() == 2 && m.Type.In(1) == p && m.Type.NumOut() == 0 {
		return func(v reflect.Value) {
			in := reflect.New(t)
			in.Elem().Set(v)
			in.Method(m.Index).Call([]reflect.Value{v.Addr()})
		}
	}
	m, ok := p.MethodByName("DeepCopy")
	if !ok || m.Type.NumIn() != 1 || m.Type.NumOut() != 1 {
		return nil
	}
	switch m.Type.Out(0) {
	case t:
		return func(v reflect.Value) { v.Set(v.Addr().Method(m.Index).Call(nil)[0]) }
	case p:
		return func(v reflect.Value) { v.Set(v.Addr().Method(m.Index).Call(nil)[0].Elem()) }
	}
	return nil
}

// codesItself reports whether a type has methods that make JSON of it, and it of JSON.
func codesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	has := func(method reflect.Type) bool { return p.Implements(method) }
	return has(reflect.TypeFor[json.Marshaler]()) && has(reflect.TypeFor[json.Unmarshaler]()) ||
		has(reflect.TypeFor[encoding.TextMarshaler]()) && has(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// hidesMemory reports whether a struct has memory behind unexported fields, which reflection cannot give to a copy.
func hidesMemory(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() && holdsMemory(f.Type) {
			return true
		}
	}
	return false
}

// holdsMemory reports whether copies by assignment share something that may change.
func holdsMemory(t reflect.Type) bool {
	if immutableTypes[t] {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer:
		return !immutableTypes[t.Elem()]
	case reflect.Slice, reflect.Map, reflect.Interface:
		return true
	case reflect.Array:
		return holdsMemory(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsMemory(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// unshareByJSON is for a type that makes JSON of what it hides. A value that it makes no JSON of was in no document.
func unshareByJSON(v reflect.Value) {
	out := reflect.New(v.Type())
	if data, err := json.Marshal(v.Addr().Interface()); err == nil && json.Unmarshal(data, out.Interface()) == nil {
		v.Set(out.Elem())
	}
}

func (b *copierBuilder) pointer(t reflect.Type) unsharer {
	elem := t.Elem()
	if immutableTypes[elem] {
		return nil
	}
	inner := b.build(elem)
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		out := reflect.New(elem)
		out.Elem().Set(v.Elem())
		if inner != nil {
			inner(out.Elem())
		}
		v.Set(out)
	}
}

func (b *copierBuilder) slice(t reflect.Type) unsharer {
	inner := b.build(t.Elem())
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		out := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(out, v)
		if inner != nil {
			for i := range out.Len() {
				inner(out.Index(i))
			}
		}
		v.Set(out)
	}
}

func (b *copierBuilder) array(t reflect.Type) unsharer {
	inner := b.build(t.Elem())
	if inner == nil {
		return nil
	}
	return func(v reflect.Value) {
		for i := range v.Len() {
			inner(v.Index(i))
		}
	}
}

func (b *copierBuilder) mapping(t reflect.Type) unsharer {
	inner := b.build(t.Elem())
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(t, v.Len())
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for iter := v.MapRange(); iter.Next(); {
			key.SetIterKey(iter)
			value.SetIterValue(iter)
			if inner != nil {
				inner(value)
			}
			out.SetMapIndex(key, value)
		}
		v.Set(out)
	}
}

func (b *copierBuilder) structure(t reflect.Type) unsharer {
	type field struct {
		index   int
		unshare unsharer
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		var u unsharer
		switch {
		case f.IsExported():
			u = b.build(f.Type)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			u = b.structure(f.Type) // reflection can set its exported fields, and nothing else of it
		}
		if u != nil {
			fields = append(fields, field{i, u})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.unshare(v.Field(f.index))
		}
	}
}

func unshareInterface(v reflect.Value) {
	if v.IsNil() {
		return
	}
	inner := unsharerOf(v.Elem().Type())
	if inner == nil {
		return
	}
	out := reflect.New(v.Elem().Type()).Elem()
	out.Set(v.Elem())
	inner(out)
	v.Set(out)
}

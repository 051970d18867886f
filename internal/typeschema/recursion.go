package typeschema

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// checkEnds returns an error for a type whose schema the library would derive without an end. That would overflow the
// stack, which ends the process and cannot be recovered.
//
// The library gives a struct, list or map that has a name a definition, and refers to it from then on. So a type may
// hold itself wherever one of these is between. It may not embed itself, be made of pointers to itself and of types
// without a name, or describe itself by itself.
func checkEnds(t reflect.Type) error {
	w := &walker{defined: map[reflect.Type]bool{}, done: map[step]bool{}}
	if err := w.value(t); err != nil {
		return err
	}
	for len(w.definitions) > 0 {
		next := w.definitions[0]
		w.definitions = w.definitions[1:]
		if err := w.content(next); err != nil {
			return err
		}
	}
	return nil
}

// walker goes over types as the library does: from one definition as far as the next ones. So it reads fields and tags
// as the library does, which also goes into fields that are no members.
type walker struct {
	defined     map[reflect.Type]bool
	definitions []reflect.Type // that were not gone over yet
	open        []step         // on the way from the definition
	done        map[step]bool
}

// step is a call of the library's: for a type, or for the fields of a struct, of which embeds tells.
type step struct {
	t      reflect.Type
	fields bool
}

// enter goes into a step, unless that was done. Where it is on its way already the library would go on for ever.
func (w *walker) enter(s step, into func() error) error {
	if i := slices.Index(w.open, s); i >= 0 {
		return endless(w.open[i:])
	}
	if w.done[s] {
		return nil
	}
	w.open = append(w.open, s)
	err := into()
	w.open = w.open[:len(w.open)-1]
	w.done[s] = true
	return err
}

// endless says of which types a circle is.
func endless(circle []step) error {
	var names []string
	for _, s := range append(slices.Clone(circle), circle[0]) {
		names = append(names, s.t.String())
	}
	how := "leads to itself"
	if circle[0].fields {
		how = "embeds itself"
	}
	return fmt.Errorf("%v %s, and a schema of that has no end: %s", circle[0].t, how, strings.Join(names, " → "))
}

// aliased and propertyAliased are types with methods that the library asks.
type (
	aliased         interface{ JSONSchemaAlias() any }
	propertyAliased interface{ JSONSchemaProperty(name string) any }
)

var (
	ipType            = reflect.TypeFor[net.IP]()
	urlType           = reflect.TypeFor[url.URL]()
	byteType          = reflect.TypeFor[byte]()
	aliasType         = reflect.TypeFor[aliased]()
	propertyAliasType = reflect.TypeFor[propertyAliased]()
	enumType          = reflect.TypeFor[interface{ EnumDescriptor() ([]byte, []int) }]() // of protobuf
)

// value is for the schema of a type.
func (w *walker) value(t reflect.Type) error {
	if t == nil {
		return nil // the library panics
	}
	if t.Kind() == reflect.Pointer {
		return w.enter(step{t: t}, func() error { return w.value(t.Elem()) })
	}
	if t.Implements(aliasType) {
		return w.enter(step{t: t}, func() error {
			return w.value(reflect.TypeOf(reflect.New(t).Interface().(aliased).JSONSchemaAlias()))
		})
	}
	if mapped(t) != nil || describesItself(t) || t.Implements(enumType) ||
		t == ipType || t == urlType || t == timeType {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		if t.Name() == "" {
			return w.enter(step{t: t}, func() error { return w.content(t) })
		}
		if !w.defined[t] {
			w.defined[t] = true
			w.definitions = append(w.definitions, t)
		}
	}
	return nil
}

// content is for what a struct, list or map is made of.
func (w *walker) content(t reflect.Type) error {
	switch {
	case t.Kind() == reflect.Struct:
		return w.fields(t)
	case t.Kind() == reflect.Slice && t.Elem() == byteType:
		return nil // text
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface:
		return nil // anything
	}
	return w.value(t.Elem())
}

// fields is for the fields of a struct, and of those that are embedded in it.
func (w *walker) fields(t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return w.enter(step{t, true}, func() error {
		instead := func(string) any { return nil }
		if t.Implements(propertyAliasType) {
			instead = reflect.New(t).Interface().(propertyAliased).JSONSchemaProperty
		}
		for f := range t.Fields() {
			if err := w.field(f, instead); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *walker) field(f reflect.StructField, instead func(name string) any) error {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	said, _, _ := strings.Cut(f.Tag.Get("jsonschema"), ",")
	if name == "-" || said == "-" {
		return nil
	}
	inner := f.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	embedded := f.Anonymous && name == "" && inner.Kind() == reflect.Struct
	switch {
	case embedded, slices.Contains(strings.Split(options, ","), "inline"):
		return w.fields(f.Type)
	case !f.Anonymous && !f.IsExported():
		return nil
	}
	if name == "" {
		name = f.Name
	}
	if alias := instead(name); alias != nil {
		return w.value(reflect.TypeOf(alias))
	}
	return w.value(f.Type)
}

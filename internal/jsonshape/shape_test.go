package jsonshape_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"
)

// codec is a package of JSON, and what it is said to make of a struct.
type codec struct {
	name      string
	of        func(reflect.Type) *jsonshape.Shape
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
	folds     bool // names of another case stand for a member, as Shape.Lookup says
}

func codecs(t reflect.Type) []codec {
	documents := jsonshape.CoderFor(t)
	return []codec{
		{"documents", jsonshape.Of, documents.Marshal, documents.Unmarshal, true},
		{"any document", jsonshape.Of, jsonshape.AnyCoder().Marshal, jsonshape.AnyCoder().Unmarshal, true},
		{"encoding/json", jsonshape.OfStandard, json.Marshal, json.Unmarshal, false},
		{"sigs.k8s.io/json", jsonshape.OfStandard, json.Marshal, kjson.UnmarshalCaseSensitivePreserveInts, false},
	}
}

// errorf is the part of a test that is told what is wrong.
type errorf interface {
	Errorf(format string, args ...any)
}

// checkShape holds the shape of a struct against what a package of JSON does with values of it: which members it
// writes, with what, which of them it leaves out, and which field each member of a document is decoded into.
func checkShape(t errorf, of reflect.Type, c codec) {
	shape := c.of(of)
	full := reflect.New(of)
	fill(full.Elem(), new(int), 0)
	document, err := c.marshal(full.Interface())
	if err != nil {
		t.Errorf("%s: encode %v: %v", c.name, of, err)
		return
	}
	members := membersOf(t, document)
	for _, m := range shape.Members {
		is, ok := members[m.Name]
		if v := full.Elem().FieldByIndex(m.Field.Index); ok == isOmitted(m, v) {
			t.Errorf("%s: %v: is member %q written: %v: %s", c.name, of, m.Name, ok, document)
		} else if ok && v.CanInterface() {
			checkValue(t, c, of, m, is, v)
		}
		delete(members, m.Name)
	}
	if shape.Rest != nil {
		maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return strings.HasPrefix(name, restKey) })
	}
	if len(members) > 0 {
		t.Errorf("%s: %v writes more members than are known: %s, in %s", c.name, of, slices.Collect(maps.Keys(members)),
			document)
	}
	checkZero(t, of, c)
	members = membersOf(t, document)
	for _, name := range names(of) {
		checkDecoded(t, of, c, name, members, full.Elem())
	}
}

// checkValue checks that a member is written from its own field.
func checkValue(t errorf, c codec, of reflect.Type, m jsonshape.Member, is json.RawMessage, v reflect.Value) {
	want, err := c.marshal(v.Interface())
	if err != nil {
		t.Errorf("%s: %v: encode field %s: %v", c.name, of, m.Field.Name, err)
	}
	switch v.Kind() {
	case reflect.Int, reflect.Bool:
		if m.Quoted {
			want = fmt.Appendf(nil, "%q", want)
		}
	case reflect.String, reflect.Pointer:
		if m.Quoted {
			return // of a package it depends which of them it quotes
		}
	}
	if string(is) != string(want) {
		t.Errorf("%s: %v: member %q is %s, want that of field %s: %s", c.name, of, m.Name, is, m.Field.Name, want)
	}
}

// checkZero checks which members are left out of a document of the zero value.
func checkZero(t errorf, of reflect.Type, c codec) {
	document, err := c.marshal(reflect.New(of).Interface())
	if err != nil {
		t.Errorf("%s: encode an empty %v: %v", c.name, of, err)
		return
	}
	members := membersOf(t, document)
	for _, m := range c.of(of).Members {
		_, ok := members[m.Name]
		if ok == (m.ByPointer() || isOmitted(m, reflect.Zero(m.Field.Type))) {
			t.Errorf("%s: %v: is member %q of an empty value written: %v: %s", c.name, of, m.Name, ok, document)
		}
	}
}

// isOmitted reports whether a value of a field is left out.
func isOmitted(m jsonshape.Member, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct, reflect.Array:
		return m.OmitZero && v.IsZero()
	case reflect.Map, reflect.Slice:
		return m.OmitZero && v.IsZero() || m.OmitEmpty && v.Len() == 0
	}
	return (m.OmitZero || m.OmitEmpty) && v.IsZero()
}

// checkDecoded checks that a member with a name is decoded into one field, and into no other.
func checkDecoded(
	t errorf, of reflect.Type, c codec, name string, members map[string]json.RawMessage, full reflect.Value,
) {
	shape := c.of(of)
	want := reflect.New(of)
	value := json.RawMessage("7")
	m := shape.Lookup(name)
	if m != nil && m.Name != name && !c.folds {
		return
	}
	switch {
	case m != nil:
		var ok bool
		if value, ok = members[m.Name]; !ok {
			return // nothing of it can be told
		}
		field := reach(want.Elem(), m.Field.Index)
		if !field.CanSet() {
			return
		}
		field.Set(full.FieldByIndex(m.Field.Index))
		if kind := jsonshape.Pointed(field.Type()).Kind(); !m.Quoted || kind == reflect.Struct || kind == reflect.Map {
			field.SetZero()
			if err := c.unmarshal(value, field.Addr().Interface()); err != nil {
				t.Errorf("%s: decode %s into a %v: %v", c.name, value, field.Type(), err)
			}
		}
	case shape.Rest != nil:
		rest := reach(want.Elem(), shape.Rest.Field.Index)
		for rest.Kind() == reflect.Pointer {
			rest.Set(reflect.New(rest.Type().Elem()))
			rest = rest.Elem()
		}
		if rest.Kind() == reflect.Map {
			rest.Set(reflect.MakeMap(rest.Type()))
			rest.SetMapIndex(reflect.ValueOf(name).Convert(rest.Type().Key()), reflect.ValueOf(7))
		} else {
			rest.SetBytes(fmt.Appendf(nil, "{%q:7}", name))
		}
	}
	document := fmt.Appendf(nil, "{%q:%s}", name, value)
	got := reflect.New(of)
	if err := c.unmarshal(document, got.Interface()); err != nil {
		t.Errorf("%s: decode %s into %v: %v", c.name, document, of, err)
	} else if !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Errorf("%s: %s decoded into %v is %+v, want %+v", c.name, document, of, got.Elem(), want.Elem())
	}
}

// reach returns a field, and makes the structs that are embedded by pointers on the way.
func reach(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

func membersOf(t errorf, document []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &members); err != nil {
		t.Errorf("%s: %v", document, err)
	}
	return members
}

const restKey = "rest of "

// fill gives each field another value. It ends where a type holds itself.
func fill(v reflect.Value, count *int, depth int) {
	if depth > 8 || jsonshape.CodesItself(v.Type()) && v.Type() != reflect.TypeFor[jsontext.Value]() {
		return
	}
	*count++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *count))
	case reflect.Int:
		v.SetInt(int64(*count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("any"))
		}
	case reflect.Pointer:
		if v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), count, depth+1)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[jsontext.Value]() {
			v.SetBytes(fmt.Appendf(nil, `{"%s%d":1}`, restKey, *count))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), count, depth+1)
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem, count, depth+1)
		key := reflect.ValueOf(fmt.Sprint(restKey, *count))
		if v.Type().Key().Kind() == reflect.Int {
			key = reflect.ValueOf(*count)
		}
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key.Convert(v.Type().Key()), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				fill(v.Field(i), count, depth+1)
			}
		}
	}
}

// names are all that a member might be called by in a type, in several cases, and some that it knows by none.
func names(of reflect.Type) []string {
	found := map[string]bool{"unknown": true, "-": true, "STATUS": true, "\u212a": true}
	seen := map[reflect.Type]bool{}
	var look func(t reflect.Type)
	look = func(t reflect.Type) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			for _, name := range []string{f.Name, tag} {
				found[name], found[strings.ToUpper(name)], found[strings.ToLower(name)] = true, true, true
			}
			look(f.Type)
		}
	}
	look(of)
	return slices.Sorted(maps.Keys(found))
}

// TestTheShapeOfATypeIsWhatIsEncodedAndDecoded, of types whose fields hide each other, embed each other, and have tags
// of all kinds, wrong ones included.
func TestTheShapeOfATypeIsWhatIsEncodedAndDecoded(t *testing.T) {
	for range 10 { // a hundred types each
		rapid.Check(t, func(t *rapid.T) {
			of := (&drawing{T: t}).structure(0)
			for _, c := range codecs(of) {
				checkShape(t, of, c)
			}
		})
	}
}

// drawing draws types.
type drawing struct {
	*rapid.T
	structs []reflect.Type // that were drawn: one type may be embedded more than once
}

func (d *drawing) structure(depth int) reflect.Type {
	if len(d.structs) > 0 && rapid.IntRange(0, 3).Draw(d.T, "again") == 0 && depth > 0 {
		return rapid.SampledFrom(d.structs).Draw(d.T, "struct")
	}
	var fields []reflect.StructField
	used := map[string]bool{}
	for range rapid.IntRange(0, 4).Draw(d.T, "fields") {
		f := d.field(depth)
		if !used[f.Name] {
			fields = append(fields, f)
		}
		used[f.Name] = true
	}
	t := reflect.StructOf(fields)
	d.structs = append(d.structs, t)
	return t
}

func (d *drawing) field(depth int) reflect.StructField {
	f := reflect.StructField{Name: rapid.SampledFrom([]string{"A", "B", "C", "Status", "K"}).Draw(d.T, "go name")}
	name := rapid.SampledFrom([]string{
		"", "", "", "", "a", "A", "b", "B", "aB", "a_b", "A-B", "status", "k", "\u017f", "-", "c'd", `c\"d`, "'e'", " ",
	}).Draw(d.T, "name")
	option := rapid.SampledFrom([]string{
		"", "", "", ",", ",omitempty", ",omitzero", ",string", ",omitempty,string", ",case:strict", ",case:ignore",
		",inline", ",embed", ",embed,omitempty", ",unknown", ",Embed", ",omitempty ", ", omitzero",
	}).Draw(d.T, "option")
	if name+option != "" {
		f.Tag = reflect.StructTag(`json:"` + name + option + `"`)
	}
	f.Type = rapid.SampledFrom([]reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[bool](), reflect.TypeFor[*string](),
		reflect.TypeFor[[]string](), reflect.TypeFor[map[string]int](), reflect.TypeFor[*map[string]int](),
		reflect.TypeFor[map[int]string](), reflect.TypeFor[plain](), reflect.TypeFor[*plain](), nil, nil, nil, nil,
	}).Draw(d.T, "type")
	if strings.Contains(option, "embed") && rapid.Bool().Draw(d.T, "raw") {
		f.Type = reflect.TypeFor[jsontext.Value]()
	}
	if f.Type == nil && depth < 3 {
		f.Type = d.structure(depth + 1)
		f.Anonymous = rapid.IntRange(0, 3).Draw(d.T, "anonymous") > 0 || !strings.Contains(option, "embed")
		if rapid.IntRange(0, 2).Draw(d.T, "pointer") == 0 {
			f.Type = reflect.PointerTo(f.Type)
		}
		if rapid.IntRange(0, 3).Draw(d.T, "no tag") > 0 && f.Anonymous {
			f.Tag = ""
		}
	} else if f.Type == nil {
		f.Type = reflect.TypeFor[string]()
	}
	return f
}

type plain struct{ X string }

// Types that reflection cannot make.
type (
	Common  struct{ A, B string }
	lower   struct{ C, D string }
	stamped struct{ At string }
	sealed  struct{ By string }
	byName  struct {
		stamped `json:"stamped"`
		sealed  `json:"sealed"`
		E       string
	}
	unnamed struct {
		stamped
		E string
	}
	named struct {
		lower `json:"lower"`
		E     string
	}
	above struct {
		Common
		C string
	}
	Chain struct {
		*Chain
		Link string      `json:"link"`
		Next *Chain      `json:"next,omitempty"`
		List []Chain     `json:"list,omitempty"`
		Any  interface{} `json:"any,omitempty"`
	}
	Shower  interface{ Show() string }
	Strings map[string]string
	tree    struct {
		Name  string `json:"name"`
		Below []tree `json:"below,omitempty"`
	}
)

func (stamped) MarshalJSON() ([]byte, error) { return []byte(`"stamped"`), nil }

func (*sealed) MarshalJSON() ([]byte, error) { return []byte(`"sealed"`), nil }

// TestTheShapeOfTypesWithMethodsAndNamesOfTheirOwn is as they are encoded and decoded.
func TestTheShapeOfTypesWithMethodsAndNamesOfTheirOwn(t *testing.T) {
	for _, test := range []struct {
		of    any
		names []string // by Of
	}{
		{struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata,omitempty"`
			Time              metav1.Time `json:"time,omitzero"`
			At                time.Time   `json:"at,omitempty"`
		}{}, []string{"metadata", "time", "at", "kind", "apiVersion"}},
		{struct {
			Meta metav1.TypeMeta `json:",inline"`
		}{}, []string{"Meta"}},
		{struct {
			Common
			lower
		}{}, []string{"A", "B", "C", "D"}},
		{struct {
			*Common
			B int
		}{}, []string{"B", "A"}},
		{named{}, []string{"lower", "E"}},
		{Chain{}, []string{"link", "next", "list", "any"}},
		{struct {
			Shower
			Strings
			X int
		}{}, []string{"Shower", "Strings", "X"}},
		{tree{}, []string{"name", "below"}},
		{reflect.Zero(reflect.StructOf([]reflect.StructField{
			{Name: "X", Type: reflect.TypeFor[above](), Anonymous: true},
			{Name: "Y", Type: reflect.TypeFor[*above](), Anonymous: true},
		})).Interface(), []string{"A", "B"}}, // C is there twice, and what is below it is not looked at again
		{entity.Object[Common, lower]{}, []string{"metadata", "spec", "status", "kind", "apiVersion"}},
	} {
		of := reflect.TypeOf(test.of)
		var got []string
		for _, m := range jsonshape.Of(of).Members {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, test.names) {
			t.Errorf("%v has the members %q, want %q", of, got, test.names)
		}
		for _, c := range codecs(of) {
			checkShape(t, of, c)
		}
	}
}

// TestAFieldThatCannotBeCalledIsNoMember: methods of what is embedded, and not exported, would have to be called.
func TestAFieldThatCannotBeCalledIsNoMember(t *testing.T) {
	of := reflect.TypeFor[struct {
		byName
		F string
	}]()
	for _, c := range codecs(of)[:2] {
		checkShape(t, of, c)
		document, err := c.marshal(reflect.New(of).Interface())
		if err != nil || string(document) != `{"E":"","F":""}` {
			t.Errorf("it is written as %s, %v", document, err)
		}
	}
}

// TestATypeWithAPromotedMethodCodesItself, unless two are promoted, which is none.
func TestATypeWithAPromotedMethodCodesItself(t *testing.T) {
	for _, test := range []struct {
		of               any
		encodes, decodes bool
	}{
		{unnamed{}, true, false},
		{struct{ *stamped }{}, true, false},
		{struct{ time.Time }{}, true, true},
		{struct {
			time.Time `json:"time"` // which hides no method
		}{}, true, true},
		{struct{ metav1.Time }{}, true, true},
		{struct {
			stamped
			time.Time
		}{}, true, true}, // its text
		{struct{ A time.Time }{}, false, false},
		{named{}, false, false},
		{entity.Object[Common, lower]{}, false, false},
	} {
		of := reflect.TypeOf(test.of)
		if e, d := jsonshape.EncodesItself(of), jsonshape.DecodesItself(of); e != test.encodes || d != test.decodes {
			t.Errorf("%v encodes itself: %v, decodes itself: %v", of, e, d)
		}
	}
}

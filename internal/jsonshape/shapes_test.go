package jsonshape

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"pgregory.net/rapid"
)

// marshals are those of the documents that Drop gets. With GOEXPERIMENT=jsonv2 both are encoding/json/v2 of the
// standard library, which has tags of its own.
var marshals = map[string]func(any) ([]byte, error){"encoding/json": json.Marshal, "go-json-experiment": jsonv1.Marshal}

// filled is a value of which each string is another text, so that a document tells which field is in it.
type filled struct {
	value  reflect.Value
	secret map[string]bool // by text
}

func fill(t reflect.Type) *filled {
	f := &filled{value: reflect.New(t).Elem(), secret: map[string]bool{}}
	f.fill(f.value, false, 0)
	return f
}

func (f *filled) fill(v reflect.Value, secret bool, depth int) {
	if depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		text := fmt.Sprintf("text-%d.", len(f.secret))
		v.SetString(text)
		f.secret[text] = secret
	case reflect.Pointer:
		if v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), secret, depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), secret, depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), secret, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"k", "l"} {
			elem := reflect.New(v.Type().Elem()).Elem()
			f.fill(elem, secret, depth+1)
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			elem := reflect.New(reflect.TypeFor[string]()).Elem()
			f.fill(elem, secret, depth+1)
			v.Set(elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() || field.Anonymous && field.Type.Kind() == reflect.Struct {
				f.fill(v.Field(i), secret || field.Tag.Get(tagName) == marked, depth+1)
			}
		}
	}
}

// leaks names what Drop leaves of the secrets in a type, as each encoder writes it, and what it takes that is none.
func leaks(t reflect.Type) (leaks, losses []string) {
	f := fill(t)
	fields, err := SecretsOf(t)
	if err != nil {
		return []string{err.Error()}, nil
	}
	for name, encode := range marshals {
		document, err := encode(f.value.Addr().Interface())
		if err != nil {
			continue // the type is not one of this encoder
		}
		kept, err := fields.Drop(document)
		if err != nil {
			return []string{err.Error()}, nil
		}
		for text, secret := range f.secret {
			switch was, is := strings.Contains(string(document), text), strings.Contains(string(kept), text); {
			case is && secret:
				leaks = append(leaks,
					fmt.Sprintf("%s writes %s, and of it stays %s: %s is secret", name, document, kept, text))
			case was && !is && !secret:
				losses = append(losses,
					fmt.Sprintf("%s writes %s, and of it stays %s: %s is no secret", name, document, kept, text))
			}
		}
	}
	return leaks, losses
}

type (
	token struct {
		Token string `json:"token" nagi:"secret"`
		Plain string `json:"plain"`
	}
	login struct {
		Auth token `json:"auth"`
	}
	note struct {
		Auth string `json:"auth"`
		User string `json:"user"`
	}
	noteBelow   struct{ note }
	Common      struct{ A, B string }
	CommonBelow struct{ *Common }
	sameToken   struct {
		Token string `json:"token"`
	}
	untagged struct{ Token string }
	tagged   struct {
		Other string `json:"Token" nagi:"secret"`
	}
	ring struct {
		Name string `json:"name"`
		Key  string `json:"key" nagi:"secret"`
		*ringBelow
		Next []*ring           `json:"next,omitempty"`
		Maps map[string][]ring `json:"maps,omitempty"`
	}
	ringBelow struct {
		*Ring
		Deep string `nagi:"secret"`
	}
	Ring struct {
		*Ring
		Again []Ring
		Key   string `json:"key2" nagi:"secret"`
	}
	listOfLists []listOfLists
	loop        *loop
	loops       *loop
)

// hiding is for structs of which a compiler's checks would say that they are strange.
func hiding(fields ...reflect.StructField) reflect.Type { return reflect.StructOf(fields) }

// texts are fields with tags.
func texts(tags ...reflect.StructTag) (fields []reflect.StructField) {
	for i, tag := range tags {
		name := string(rune('A' + i))
		fields = append(fields, reflect.StructField{Name: name, Type: reflect.TypeFor[string](), Tag: tag})
	}
	return fields
}

func embeddedField(name string, t reflect.Type) reflect.StructField {
	return reflect.StructField{Name: name, Type: t, Anonymous: true}
}

// TestSecretsAreDroppedAsEachPackageOfJSONCountsFields: which member a field is, and which of several fields with one
// name, is as the package says that writes the document.
func TestSecretsAreDroppedAsEachPackageOfJSONCountsFields(t *testing.T) {
	for name, test := range map[string]struct {
		t    reflect.Type
		lose bool // in doubt what is no secret goes, too
	}{
		"embedded": {reflect.TypeFor[struct{ token }](), false},
		"embedded by a tag": {reflect.TypeFor[struct {
			In token `json:",embed"`
		}](), false},
		"embedded by a tag, by a pointer": {reflect.TypeFor[struct {
			In *token `json:",embed"`
		}](), false},
		"inlined by a tag": {reflect.TypeFor[struct {
			In token `json:",inline"`
		}](), false},
		"embedded by a tag, with another option": {reflect.TypeFor[struct {
			In token `json:",embed,omitempty"`
		}](), false},
		"embedded by a tag, with a name": {reflect.TypeFor[struct {
			In token `json:"in,embed"`
		}](), false},
		"inlined by a tag, with a name": {reflect.TypeFor[struct {
			In token `json:"in,inline"`
		}](), false},
		"embedded twice by tags": {reflect.TypeFor[struct {
			In struct {
				In token `json:",embed"`
			} `json:",embed"`
		}](), false},
		"all that is embedded by a tag": {reflect.TypeFor[struct {
			In note `json:",embed" nagi:"secret"`
		}](), false},
		"a map that takes the rest": {reflect.TypeFor[struct {
			Plain string
			Rest  map[string]string `json:",embed" nagi:"secret"`
		}](), false},
		"a map that takes the rest, inlined": {reflect.TypeFor[struct {
			Plain string
			Rest  map[string]string `json:",inline" nagi:"secret"`
		}](), false},
		"structs in a map that takes the rest": {reflect.TypeFor[struct {
			Plain string
			Rest  map[string]token `json:",embed"`
		}](), false},
		"embedded with a name": {reflect.TypeFor[struct {
			token `json:"in"`
		}](), false},
		"embedded with a name that is none": {hiding(reflect.StructField{
			Name: "Common", Type: reflect.TypeFor[Common](), Anonymous: true, Tag: `json:"a\"b" nagi:"secret"`,
		}), false},
		"a shallower one hides a deeper one": {hiding(
			embeddedField("A", reflect.TypeFor[sameToken]()), embeddedField("B", reflect.TypeFor[token]()),
			reflect.StructField{Name: "Token", Type: reflect.TypeFor[string](), Tag: `json:"token"`},
		), false},
		"a shallower secret hides a deeper field": {reflect.TypeFor[struct {
			noteBelow
			login
		}](), false},
		"a shallower secret hides a deeper field, the other way round": {reflect.TypeFor[struct {
			login
			noteBelow
		}](), false},
		"a shallower field hides a deeper secret": {reflect.TypeFor[struct {
			note
			In struct{ login }
		}](), false},
		"one type embedded twice, once as a secret": {reflect.TypeFor[struct {
			CommonBelow
			*Common `nagi:"secret"`
		}](), false},
		"one type embedded twice, the secret one first": {reflect.TypeFor[struct {
			*Common `nagi:"secret"`
			CommonBelow
		}](), false},
		"one type embedded twice, the deeper one is secret": {reflect.TypeFor[struct {
			CommonBelow `nagi:"secret"`
			*Common
		}](), false},
		"a conflict": {hiding(
			embeddedField("A", reflect.TypeFor[token]()), embeddedField("B", reflect.TypeFor[sameToken]()),
		), false},
		"a conflict, and one above": {hiding(
			embeddedField("A", reflect.TypeFor[token]()), embeddedField("B", reflect.TypeFor[sameToken]()),
			reflect.StructField{Name: "Token", Type: reflect.TypeFor[login](), Tag: `json:"token"`},
		), false},
		"a tag beats none": {reflect.TypeFor[struct {
			untagged
			tagged
		}](), false},
		"names that not all packages take": {hiding(texts(
			`json:"a\tb" nagi:"secret"`,
			`json:"c'd" nagi:"secret"`,
			`json:"'e'" nagi:"secret"`,
			`json:"ü" nagi:"secret"`,
			`json:"-," nagi:"secret"`,
			`json:"-" nagi:"secret"`,
			`json:"g,omitempty" nagi:"secret"`,
			`json:",omitempty" nagi:"secret"`,
			`json:"i h" nagi:"secret"`,
			`json:"j;k" nagi:"secret"`,
		)...), false},
		"a name that hides one in one package only": {hiding(
			embeddedField("B", reflect.TypeFor[untagged]()), texts(`json:"Tok'en"`)[0],
			reflect.StructField{Name: "In", Type: reflect.TypeFor[token](), Tag: `json:",embed"`},
		), true},
		"in lists and maps": {reflect.TypeFor[struct {
			Lists  [][2]login                    `json:"lists"`
			Maps   map[string]*token             `json:"maps"`
			Deeper map[string][]struct{ *login } `json:"deeper"`
		}](), false},
		"interfaces": {reflect.TypeFor[struct {
			Any    any `json:"any"`
			Secret any `json:"secret" nagi:"secret"`
		}](), false},
		"types that hold themselves": {reflect.TypeFor[ring](), false},
		"types of nothing": {reflect.TypeFor[struct {
			List  listOfLists
			Loop  loop
			Loops loops
			Token token
		}](), false},
	} {
		t.Run(name, func(t *testing.T) {
			leaks, losses := leaks(test.t)
			for _, leak := range leaks {
				t.Error(leak)
			}
			for _, loss := range losses {
				if !test.lose {
					t.Error(loss)
				}
			}
		})
	}
}

// TestNoShapeOfATypeLeaksItsSecrets draws types with fields that hide each other.
func TestNoShapeOfATypeLeaksItsSecrets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		options := rapid.Bool().Draw(t, "options") // of which the packages know different ones
		of := drawStruct(t, options, 0)
		leaks, losses := leaks(of)
		if len(leaks) > 0 {
			t.Fatalf("%v: %s", of, leaks[0])
		}
		if len(losses) > 0 && !options {
			t.Fatalf("%v: %s", of, losses[0])
		}
	})
}

func drawStruct(t *rapid.T, options bool, depth int) reflect.Type {
	var fields []reflect.StructField
	for i := range rapid.IntRange(1, 4).Draw(t, "fields") {
		f := reflect.StructField{Name: string(rune('A' + i)), Type: drawType(t, options, depth)}
		var tags []string
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		name := rapid.SampledFrom([]string{"", "", "A", "B", "C"}).Draw(t, "name")
		if inner.Kind() == reflect.Struct {
			f.Anonymous = rapid.Bool().Draw(t, "anonymous")
			if name != "" && rapid.IntRange(0, 2).Draw(t, "unnamed") > 0 {
				name = ""
			}
		}
		option := ""
		if options {
			option = rapid.SampledFrom([]string{"", "", ",embed", ",inline", ",unknown", ",omitempty"}).Draw(t, "option")
		}
		if name+option != "" {
			tags = append(tags, fmt.Sprintf("json:%q", name+option))
		}
		if rapid.IntRange(0, 3).Draw(t, "secret") == 0 {
			tags = append(tags, `nagi:"secret"`)
		}
		f.Tag = reflect.StructTag(strings.Join(tags, " "))
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

func drawType(t *rapid.T, options bool, depth int) reflect.Type {
	text := reflect.TypeFor[string]()
	if depth == 3 {
		return text
	}
	switch rapid.IntRange(0, 6).Draw(t, "type") {
	case 0, 1:
		return text
	case 2:
		return reflect.PointerTo(drawStruct(t, options, depth+1))
	case 3:
		return reflect.SliceOf(drawStruct(t, options, depth+1))
	case 4:
		return reflect.MapOf(text, drawType(t, options, depth+1))
	default:
		return drawStruct(t, options, depth+1)
	}
}

package jsonshape

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// dialect says how one package of JSON reads a field and its tag.
type dialect struct {
	nameIn func(tag string) (name string, ok bool)
	// embed is the option by which the members of a field, which has no name then, are those of the struct around it.
	// rest is that of a field that takes the members that no other has. "" if there is no such option.
	embed, rest string
	// strict says that a field with a wrong tag is in no document, and not a field like others.
	strict bool
	// callsAll says that methods of embedded structs that are not exported would have to be called: such a field is in
	// no document.
	callsAll bool
}

var (
	standard = &dialect{nameIn: nameV1}
	// documents is github.com/go-json-experiment/json, by which a Coder encodes and decodes.
	documents = &dialect{nameIn: nameUnquoted, embed: "embed", rest: "embed", callsAll: true}
	// second is encoding/json/v2, an experiment of Go 1.26.
	second   = &dialect{nameIn: nameQuoted, embed: "inline", rest: "unknown", strict: true, callsAll: true}
	dialects = []*dialect{standard, documents, second}
)

// place is where the JSON of a field is.
type place int

const (
	asNothing  place = iota
	asMember         // in a member of its own
	asEmbedded       // its members are those of the struct around it
	asRest           // it takes the members that no other field has
)

// member returns what a field is, and where.
func (d *dialect) member(f reflect.StructField) (m Member) {
	tag := f.Tag.Get("json")
	_, tail, _ := strings.Cut(tag, ",")
	var embed, rest bool
	for option := range strings.SplitSeq(tail, ",") {
		m.CaseStrict = m.CaseStrict || option == "case:strict" && d != standard
		if d != standard { // which takes nothing after the option
			option = option[:len(option)-len(strings.TrimLeftFunc(option, isLetterOrDigit))]
		}
		switch option {
		case "":
			continue
		case "omitempty":
			m.OmitEmpty = true
		case "omitzero":
			m.OmitZero = true
		case "string":
			m.Quoted = true
		}
		embed, rest = embed || option == d.embed, rest || option == d.rest
	}
	m.Field = f
	m.Name, m.tagged = d.nameIn(tag)
	m.place = d.placeOf(f, m, embed, rest)
	if embed && !m.tagged { // what cannot be embedded is a member without options
		m.OmitEmpty, m.OmitZero, m.Quoted, m.CaseStrict = false, false, false, false
	}
	if m.Name = cmp.Or(m.Name, f.Name); m.place == asRest {
		m.Name = ""
	}
	return m
}

func (d *dialect) placeOf(f reflect.StructField, m Member, embed, rest bool) place {
	inner := structOf(f.Type)
	asField := asMember
	if !f.IsExported() && (inner == nil || d.callsAll && needsCalls(inner, m.OmitZero)) {
		asField = asNothing
	}
	ifWrong := asField
	if d.strict {
		ifWrong = asNothing
	}
	switch {
	case f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous:
		return asNothing
	case !embed && !rest && (m.tagged || !f.Anonymous || inner == nil):
		return asField
	case m.tagged: // what is embedded has no name
		return ifWrong
	case inner != nil && (!rest || d.embed == d.rest):
		return asEmbedded
	case !f.IsExported():
		return asNothing
	case takesRest(f.Type):
		return asRest
	}
	return ifWrong
}

// needsCalls reports whether methods of a type have to be called to encode or decode it.
func needsCalls(t reflect.Type, omitZero bool) bool {
	return CodesItself(t) || omitZero && implements(t, reflect.TypeFor[interface{ IsZero() bool }]())
}

// takesRest reports whether a field of a type can take members of any name.
func takesRest(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	return t == reflect.TypeFor[jsontext.Value]() ||
		t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !CodesItself(t.Key())
}

// nameV1 takes a name of letters, digits and some signs.
func nameV1(tag string) (string, bool) {
	name, _, _ := strings.Cut(tag, ",")
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if odd {
		name = ""
	}
	return name, name != ""
}

// nameUnquoted takes a name of all but reserved characters, or what comes before the first one.
func nameUnquoted(tag string) (string, bool) {
	end := strings.IndexAny(tag, ",\\'\"`")
	switch {
	case end < 0:
		end = len(tag)
	case end == 0:
		return "", false
	case tag[end] != ',': // an identifier is taken
		if first := []rune(tag)[0]; first != '_' && !unicode.IsLetter(first) {
			return "", false
		}
		end = len(tag) - len(strings.TrimLeftFunc(tag, isLetterOrDigit))
	}
	return string([]rune(tag[:end])), end > 0 // what is no UTF-8 is replaced
}

// nameQuoted also takes a name in single quotes.
func nameQuoted(tag string) (string, bool) {
	if !strings.HasPrefix(tag, "'") {
		return nameUnquoted(tag)
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	escaped := false
	for _, r := range tag[1:] {
		switch {
		case escaped:
			if escaped = false; r != '\'' {
				quoted.WriteByte('\\')
			}
		case r == '\\':
			escaped = true
			continue
		case r == '"':
			quoted.WriteByte('\\')
		case r == '\'':
			name, err := strconv.Unquote(quoted.String() + `"`)
			return string([]rune(name)), err == nil
		}
		quoted.WriteRune(r)
	}
	return "", false
}

func isLetterOrDigit(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

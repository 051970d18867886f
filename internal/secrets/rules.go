package secrets

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rules say which members the fields of a struct become, as one package of JSON has it. The packages differ, and which
// of them writes a document is not known here.
type rules struct {
	name func(tag string) (name string, ok bool)
	// embed is the option by which the members of a field, which has no name then, are those of the struct around it.
	// rest is that of a map that takes the members that no field has. "" if there is no such option.
	embed, rest string
	// strict says that a field with a wrong tag is in no document, and not a field like others.
	strict bool
}

var packages = []rules{
	{name: nameV1}, // encoding/json, and sigs.k8s.io/json, which is a copy of it
	{name: nameUnquoted, embed: "embed", rest: "embed"},                // github.com/go-json-experiment/json
	{name: nameQuoted, embed: "inline", rest: "unknown", strict: true}, // encoding/json/v2, an experiment of Go 1.26
}

// member is a field that is a member of the document, or a map that takes the rest.
type member struct {
	name   string
	t      reflect.Type
	secret bool // it is marked, or is in what is marked

	depth  int
	tagged bool // the tag has its name
}

// membersOf returns the members of a struct, by name, and the maps that take the rest. Of several fields with one name
// the one at the least depth counts, of those one with a tag, and none if there are several still. Those are returned
// all: none is written, but what is in doubt is not told.
func (r rules) membersOf(t reflect.Type) (named map[string][]member, rest []member) {
	type level struct {
		t      reflect.Type
		depth  int
		secret bool
		again  bool // its fields are there already: they are ambiguous
	}
	named = map[string][]member{}
	seen := map[reflect.Type]bool{t: true}
	for queue := []level{{t: t}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for f := range at.t.Fields() {
			m := member{t: f.Type, depth: at.depth, secret: at.secret || IsMarked(f)}
			inner := structOf(f.Type)
			switch m.name, m.tagged = r.name(f.Tag.Get("json")); r.placeOf(f, m.tagged) {
			case asField:
				m.name = cmp.Or(m.name, f.Name)
				named[m.name] = append(named[m.name], m)
			case asRest:
				rest = append(rest, m)
			case asEmbedded:
				if !at.again {
					queue = append(queue, level{inner, at.depth + 1, m.secret, seen[inner]})
				}
				seen[inner] = true
			}
		}
	}
	for name, fields := range named {
		named[name] = dominant(fields)
	}
	return named, rest
}

// dominant returns the field that counts of several with one name; or those of which none does.
func dominant(fields []member) []member {
	rank := func(m member) int {
		if m.tagged {
			return 2 * m.depth
		}
		return 2*m.depth + 1
	}
	least := rank(slices.MinFunc(fields, func(x, y member) int { return cmp.Compare(rank(x), rank(y)) }))
	return slices.DeleteFunc(fields, func(m member) bool { return rank(m) != least })
}

// place is where the JSON of a field is.
type place int

const (
	nowhere    place = iota
	asField          // in a member of its own
	asEmbedded       // its members are those of the struct around it
	asRest           // it takes the members that no field has
)

// placeOf returns where a field is. tagged says that it has a name.
func (r rules) placeOf(f reflect.StructField, tagged bool) place {
	tag := f.Tag.Get("json")
	_, tail, _ := strings.Cut(tag, ",")
	var embed, rest bool
	for option := range strings.SplitSeq(tail, ",") {
		option = option[:len(option)-len(strings.TrimLeftFunc(option, isLetterOrDigit))]
		embed = embed || option != "" && option == r.embed
		rest = rest || option != "" && option == r.rest
	}
	inner := structOf(f.Type)
	switch {
	case tag == "-" || !f.IsExported() && !f.Anonymous:
		return nowhere
	case !embed && !rest && (tagged || !f.Anonymous || inner == nil):
		if f.IsExported() || inner != nil {
			return asField
		}
		return nowhere
	case tagged: // embed has no name
		return r.orNowhere(f)
	case inner != nil && (!rest || r.embed == r.rest):
		return asEmbedded
	case !f.IsExported():
		return nowhere
	case takesRest(f.Type):
		return asRest
	}
	return r.orNowhere(f)
}

// orNowhere is the place of a field whose tag is wrong.
func (r rules) orNowhere(f reflect.StructField) place {
	if r.strict || !f.IsExported() && structOf(f.Type) == nil {
		return nowhere
	}
	return asField
}

// takesRest reports whether a field of a type can take members of any name.
func takesRest(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	return t == reflect.TypeFor[jsontext.Value]() ||
		t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !encodesItself(t.Key())
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

// structOf returns the struct that t is or points to; nil if it is another type.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

var encoders = []reflect.Type{
	reflect.TypeFor[stdjson.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](),
}

// encodesItself reports whether a type has a method that encodes it.
func encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(encoders, func(method reflect.Type) bool {
		return t.Implements(method) || t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(method)
	})
}

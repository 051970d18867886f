package entity

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// flaw is what is wrong with JSON, and where. Its words hold nothing of the JSON itself, neither values nor names of
// members that the type does not have. Errors are shown to others than the JSON, and writers of documents must not
// write logs.
type flaw struct {
	path         string // as the type names it, see pathOf; "" if it is not known
	line, column int    // from 1; 0 if they are not known
	why          string // a sentence without the path
}

func (f *flaw) Error() string {
	if f.path == "" {
		return f.why
	}
	return f.path + ": " + f.why
}

// whyUndecodable says why JSON does not decode into a type: where, and which type does not take it.
func whyUndecodable(data []byte, into reflect.Type, err error) error {
	if syntax, ok := errors.AsType[*jsonv1.SyntaxError](err); ok {
		return notJSON(data, into, syntax.Offset)
	}
	if syntax, ok := errors.AsType[*stdjson.SyntaxError](err); ok {
		return notJSON(data, into, syntax.Offset)
	}
	if is, offset := kjson.SyntaxErrorOffset(err); is {
		return notJSON(data, into, offset)
	}
	if misfit := findMisfit(data, into); misfit != nil {
		return misfit
	}
	if mismatch, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		return mismatched(data, into, mismatch.Offset, mismatch.Value, mismatch.Type)
	}
	if mismatch, ok := errors.AsType[*stdjson.UnmarshalTypeError](err); ok {
		return mismatched(data, into, mismatch.Offset, mismatch.Value, mismatch.Type)
	}
	return &flaw{why: fmt.Sprintf("%s does not take one of its values (%T)", typeName(into), err)}
}

// noObject is about a document that does not begin as an object.
func noObject(data []byte) error {
	f := &flaw{line: 1, column: 1, why: "it is no JSON object"}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		f.why = "it begins with a byte-order mark, which no JSON does: write it as UTF-8 without one"
	}
	return f
}

// notJSON is about a mistake in the byte before offset.
func notJSON(data []byte, into reflect.Type, offset int64) error {
	f := &flaw{path: pathOf(into, pointerAt(data, offset))}
	if offset >= int64(len(data)) {
		f.line, f.column = lineOf(data, int64(len(data)))
		f.why = fmt.Sprintf("it is no valid JSON at its end, %s", f.place(len(data)))
		return f
	}
	f.line, f.column = lineOf(data, offset-1)
	f.why = fmt.Sprintf("it is no valid JSON from %s on", f.place(int(offset)-1))
	return f
}

func (f *flaw) place(offset int) string {
	return fmt.Sprintf("line %d, column %d, byte %d", f.line, f.column, offset)
}

// lineOf returns line and column of a byte, both from 1. Columns count characters, as editors do.
func lineOf(data []byte, offset int64) (line, column int) {
	before := data[:max(0, min(offset, int64(len(data))))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// pointerAt returns where in the JSON an offset is, as far as the JSON can be read until there.
func pointerAt(data []byte, offset int64) jsontext.Pointer {
	d := jsontext.NewDecoder(bytes.NewReader(data), lenient)
	at := d.StackPointer()
	for d.InputOffset() < offset {
		if _, err := d.ReadToken(); err != nil {
			break
		}
		at = d.StackPointer()
	}
	return at
}

var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// findMisfit decodes once more, to learn where a value is that its type does not take. It returns nil if that is not
// what is wrong.
func findMisfit(data []byte, into reflect.Type) error {
	if into.Kind() == reflect.Map {
		return nil
	}
	err := jsonv2.Unmarshal(data, reflect.New(into).Interface(),
		jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))
	misfit, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return nil
	}
	offset := misfit.ByteOffset
	for int(offset) < len(data) && bytes.IndexByte([]byte(" \t\r\n:,"), data[offset]) >= 0 {
		offset++ // it is where the value before has ended
	}
	return newMisfit(data, into, offset, misfit.JSONPointer, misfit.JSONKind.String(), misfit.GoType)
}

// mismatched is about a value of which the end, or the beginning, is known. value begins with its kind, which may be
// followed by the value itself.
func mismatched(data []byte, into reflect.Type, offset int64, value string, want reflect.Type) error {
	kind, _, _ := strings.Cut(value, " ")
	return newMisfit(data, into, offset, pointerAt(data, offset), kind, want)
}

func newMisfit(
	data []byte, into reflect.Type, offset int64, at jsontext.Pointer, kind string, want reflect.Type,
) error {
	switch kind {
	case "number", "string", "null":
	case "bool", "true", "false":
		kind = "bool"
	case "array", "[":
		kind = "array"
	case "object", "{":
		kind = "object"
	default:
		kind = "value"
	}
	wanted := "another type"
	if want != nil {
		wanted = typeName(want)
	}
	f := &flaw{path: pathOf(into, at)}
	f.line, f.column = lineOf(data, offset)
	f.why = fmt.Sprintf("there is a JSON %s at %s, where %s is wanted", kind, f.place(int(offset)), wanted)
	if hint := misfitHint(data, offset, kind, want); hint != "" {
		f.why += ": " + hint
	}
	return f
}

// misfitHint says what is wrong with a value whose kind is right; "" if that says it all.
func misfitHint(data []byte, offset int64, kind string, want reflect.Type) string {
	if want == nil {
		return ""
	}
	number := want.Kind()
	switch {
	case kind == "string" && times[want]:
		return "a time is written as in RFC 3339, such as 2006-01-02T15:04:05Z"
	case kind == "string" && jsonshape.DecodesItself(want):
		return "the text is none that it takes"
	case kind != "number" || number < reflect.Int || number > reflect.Float64:
		return ""
	case number <= reflect.Uintptr && bytes.ContainsAny(numberAt(data, offset), ".eE"):
		return "write a whole number without a point and an exponent, such as 1000000 for 1e+06"
	case number >= reflect.Uint && number <= reflect.Uintptr && bytes.HasPrefix(numberAt(data, offset), []byte("-")):
		return "it may not be below 0"
	}
	return "it is too large"
}

var times = map[reflect.Type]bool{
	reflect.TypeFor[time.Time](): true, reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true,
}

func numberAt(data []byte, offset int64) []byte {
	rest := data[min(int(offset), len(data)):]
	end := bytes.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if end < 0 {
		return rest
	}
	return rest[:end]
}

// typeName names a type of the program.
func typeName(t reflect.Type) string {
	if t == nil {
		return "the type"
	}
	const longest = 80 // that of an anonymous struct has all its fields
	if name := t.String(); len(name) <= longest {
		return name
	}
	return t.Kind().String()
}

// pathOf writes a place in a document as its readers do: spec.pages[2].title. A name that the type does not have, such
// as a key of a map, is a star: nothing of it is a name from a document. It ends where the type says nothing more.
func pathOf(t reflect.Type, at jsontext.Pointer) string {
	var path strings.Builder
	for name := range at.Tokens() {
		if t == nil {
			break
		}
		if t = jsonshape.Pointed(t); t == nil {
			break
		}
		switch t.Kind() {
		case reflect.Struct:
			shape := jsonshape.Of(t)
			switch m := shape.Lookup(name); {
			case m != nil:
				path.WriteString("." + m.Name)
				t = m.Field.Type
			case shape.Rest != nil:
				path.WriteString(".*")
				t = nil
			default:
				return strings.TrimPrefix(path.String(), ".")
			}
		case reflect.Slice, reflect.Array:
			path.WriteString("[" + name + "]")
			t = t.Elem()
		case reflect.Map:
			path.WriteString(".*")
			t = t.Elem()
		default:
			return strings.TrimPrefix(path.String(), ".")
		}
	}
	return strings.TrimPrefix(path.String(), ".")
}

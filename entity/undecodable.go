package entity

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonv1 "github.com/go-json-experiment/json/v1"
	kjson "sigs.k8s.io/json"
)

// whyUndecodable says why JSON does not decode into a type: where, and which type does not take it. Its words hold
// nothing of the JSON itself, neither values nor names of members that the type does not have. Errors are shown to
// others than the JSON, and writers of documents must not write logs.
func whyUndecodable(data []byte, into reflect.Type, err error) error {
	if syntax, ok := errors.AsType[*jsonv1.SyntaxError](err); ok {
		return notJSON(data, syntax.Offset)
	}
	if syntax, ok := errors.AsType[*stdjson.SyntaxError](err); ok {
		return notJSON(data, syntax.Offset)
	}
	if is, offset := kjson.SyntaxErrorOffset(err); is {
		return notJSON(data, offset)
	}
	if mismatch, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		return mismatched(data, into, mismatch.Offset, mismatch.Value, mismatch.Type, mismatch.Field)
	}
	if mismatch, ok := errors.AsType[*stdjson.UnmarshalTypeError](err); ok {
		return mismatched(data, into, mismatch.Offset, mismatch.Value, mismatch.Type, mismatch.Field)
	}
	return fmt.Errorf("%s does not take one of its values (%T)", typeName(into), err)
}

func notJSON(data []byte, offset int64) error {
	if offset >= int64(len(data)) {
		return fmt.Errorf("it is no valid JSON: it ends too early, after %d bytes", len(data))
	}
	return fmt.Errorf("it is no valid JSON: there is a mistake at %s", place(data, offset))
}

// place says where an offset is.
func place(data []byte, offset int64) string {
	offset = max(0, min(offset, int64(len(data))))
	return fmt.Sprintf("byte %d (line %d)", offset, 1+bytes.Count(data[:offset], []byte("\n")))
}

// mismatched is about a value that the type of its field does not take. value begins with the kind of the value, which
// may be followed by the value itself.
func mismatched(data []byte, into reflect.Type, offset int64, value string, want reflect.Type, path string) error {
	kind, _, _ := strings.Cut(value, " ")
	switch kind {
	case "number", "string", "bool", "array", "object", "null":
	default:
		kind = "value"
	}
	wanted := "another type"
	if want != nil {
		wanted = typeName(want)
	}
	if field := knownPath(into, path); field != "" {
		return fmt.Errorf("%s has a JSON %s at %s, and %s is wanted", field, kind, place(data, offset), wanted)
	}
	return fmt.Errorf("there is a JSON %s at %s where %s is wanted", kind, place(data, offset), wanted)
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

// knownPath returns as much of a path as names fields of the type, so that nothing of it is a name from a document.
func knownPath(t reflect.Type, path string) string {
	var known []string
	for name := range strings.SplitSeq(path, ".") {
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			break
		}
		field, ok := fieldNamed(t, name)
		if !ok {
			break
		}
		known, t = append(known, name), field
	}
	return strings.Join(known, ".")
}

// fieldNamed returns the type of the field with a JSON name, in the struct or in an inlined one.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inlined := f.Anonymous && tag == "" || strings.Contains(options, "inline")
		switch {
		case tag == name && name != "", tag == "" && f.IsExported() && !f.Anonymous && f.Name == name:
			return f.Type, true
		case inlined && f.Type.Kind() == reflect.Struct:
			if inner, ok := fieldNamed(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return nil, false
}

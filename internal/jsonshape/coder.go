package jsonshape

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Coder encodes and decodes values of one type as encoding/json does, in little more than half the time, and rounds no
// whole number: in an interface it becomes an int64, as apimachinery has it, and no float64, which knows 53 bits.
type Coder struct {
	Marshal   func(v any) ([]byte, error)
	Unmarshal func(data []byte, v any) error
}

// AnyCoder is for values of all types.
func AnyCoder() Coder { return Coder{Marshal: marshal, Unmarshal: unmarshal} }

// CoderFor is for values of type t and of the types that it consists of. It is faster where none of them is an
// interface.
func CoderFor(t reflect.Type) Coder {
	if reaches(t, needsCare) {
		return AnyCoder()
	}
	return Coder{
		Marshal:   func(v any) ([]byte, error) { return jsonv1.Marshal(v) },
		Unmarshal: func(data []byte, v any) error { return jsonv1.Unmarshal(data, v) },
	}
}

// number is that of encoding/json. The library has its own one, and takes this for a string.
var number = reflect.TypeFor[stdjson.Number]()

// needsCare reports whether values of a type are those for which the functions below are.
func needsCare(t reflect.Type) bool { return t == number || t.Kind() == reflect.Interface }

var (
	encodeOptions = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.WithMarshalers(json.MarshalToFunc(writeNumber)))
	decodeOptions = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(readAny), json.UnmarshalFromFunc(readNumber))))
)

func marshal(v any) ([]byte, error)           { return json.Marshal(v, encodeOptions) }
func unmarshal(data []byte, v any) error      { return json.Unmarshal(data, v, decodeOptions) }
func isName(kind jsontext.Kind, n int64) bool { return kind == '{' && n%2 == 0 }

// readAny keeps a whole number whole. The library does the rest.
func readAny(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' || *v != nil {
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	if whole, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*v = whole
		return nil
	}
	float, err := strconv.ParseFloat(string(text), 64)
	*v = float
	return err
}

// readNumber takes a number, and a string of one.
func readNumber(d *jsontext.Decoder, v *stdjson.Number) error {
	kind := d.PeekKind()
	if kind != '0' && kind != '"' || isName(d.StackIndex(d.StackDepth())) {
		return errors.ErrUnsupported
	}
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	text := token.String()
	if kind == '"' && !isNumber(text) {
		return fmt.Errorf("invalid number literal, trying to unmarshal %q into Number", text)
	}
	*v = stdjson.Number(text)
	return nil
}

func writeNumber(e *jsontext.Encoder, n stdjson.Number) error {
	switch {
	case isName(e.StackIndex(e.StackDepth())):
		return errors.ErrUnsupported
	case n == "":
		n = "0" // as encoding/json does, for those of Go 1.4
	case !isNumber(string(n)):
		return fmt.Errorf("invalid number literal %q", string(n))
	}
	return e.WriteValue(jsontext.Value(n))
}

func isNumber(text string) bool {
	value := jsontext.Value(text)
	return value.Kind() == '0' && value.IsValid()
}

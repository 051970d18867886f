package jsonshape_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"pgregory.net/rapid"
)

type inner struct {
	Any any `json:"any,omitempty"`
}

type outer struct {
	Int     int64                     `json:"int,omitempty"`
	Number  json.Number               `json:"number,omitempty"`
	Numbers map[json.Number]time.Time `json:"numbers,omitempty"`
	Free    map[string]any            `json:"free,omitempty"`
	List    []any                     `json:"list,omitempty"`
	Raw     json.RawMessage           `json:"raw,omitempty"`
	inner
	Named inner `json:"named,omitzero"`
}

// TestNoWholeNumberIsRounded, wherever an interface holds it.
func TestNoWholeNumberIsRounded(t *testing.T) {
	for _, n := range []string{"0", "-1", "9007199254740993", "-9007199254740993", "9223372036854775807",
		"-9223372036854775808"} {
		for _, shape := range []string{`{"int":%s}`, `{"number":%s}`, `{"free":{"a":{"b":[%s]}}}`, `{"list":[[{"x":%s}]]}`,
			`{"raw":{"x":%s}}`, `{"any":%s}`, `{"named":{"any":[%s]}}`} {
			document := fmt.Sprintf(shape, n)
			if n == "0" && (strings.Contains(shape, "int") || strings.Contains(shape, "number")) {
				continue // it is omitted
			}
			var v outer
			if err := jsonshape.AnyCoder().Unmarshal([]byte(document), &v); err != nil {
				t.Fatalf("%s: %v", document, err)
			}
			again, err := jsonshape.AnyCoder().Marshal(v)
			if err != nil || string(again) != document {
				t.Errorf("%s became %s, %v", document, again, err)
			}
		}
	}
}

// TestANumberInAnInterfaceIsAsApimachineryHasIt: an int64 if it is whole and fits, else a float64.
func TestANumberInAnInterfaceIsAsApimachineryHasIt(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "-0": int64(0), "9223372036854775807": int64(math.MaxInt64), "1.0": 1.0, "1e2": 100.0,
		"9223372036854775808": float64(1 << 63), `"1"`: "1", "null": nil, "true": true,
	} {
		var v any
		if err := jsonshape.AnyCoder().Unmarshal([]byte(text), &v); err != nil || v != want {
			t.Errorf("%s became %T %v, %v; want %T %v", text, v, v, err, want, want)
		}
	}
	var v any
	if err := jsonshape.AnyCoder().Unmarshal([]byte("1e400"), &v); err == nil {
		t.Errorf("1e400 became %v", v)
	}
}

// TestItDoesAsEncodingJSONOtherwise, errors included, for numbers of its kind too.
func TestItDoesAsEncodingJSONOtherwise(t *testing.T) {
	for _, document := range []string{
		`{"number":1.50}`, `{"number":"12"}`, `{"number":"x"}`, `{"number":""}`, `{"number":null}`, `{"number":true}`,
		`{"number":[1]}`, `{"numbers":{"1":"2026-01-01T00:00:00Z"}}`, `{"NUMBER":7}`, `{"free":null,"list":null}`,
		`{"free":{"a":1.5,"a":"twice"}}`, `{"list":[1.25,"a",null,true,{}]}`, `{"int":"1"}`, `{"any":`, `{"raw": [ 1 ]}`,
	} {
		var got, want outer
		gotErr, wantErr := jsonshape.AnyCoder().Unmarshal([]byte(document), &got), json.Unmarshal([]byte(document), &want)
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %+v, %v; with encoding/json %+v, %v", document, got, gotErr, want, wantErr)
		}
	}
	for _, value := range []any{
		outer{}, outer{Number: "1e3"}, outer{Number: "x"}, outer{Numbers: map[json.Number]time.Time{"1": {}, "x": {}}},
		outer{Free: map[string]any{"n": json.Number("1.50"), "<": "&"}}, []any{json.Number(""), int64(1 << 60), 1e21},
	} {
		got, gotErr := jsonshape.AnyCoder().Marshal(value)
		want, wantErr := json.Marshal(value)
		if (gotErr == nil) != (wantErr == nil) || string(got) != string(want) {
			t.Errorf("%+v became %s, %v; with encoding/json %s, %v", value, got, gotErr, want, wantErr)
		}
	}
}

// TestWhatIsWrittenReadsAsItWas, whatever an interface holds.
func TestWhatIsWrittenReadsAsItWas(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) any { return value(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		was := outer{Free: map[string]any{"a": values.Draw(t, "a")}, List: []any{values.Draw(t, "b")}}
		data, err := jsonshape.AnyCoder().Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		var is outer
		if err := jsonshape.CoderFor(reflect.TypeFor[outer]()).Unmarshal(data, &is); err != nil || !reflect.DeepEqual(is, was) {
			t.Fatalf("%#v became %#v, %v by %s", was, is, err, data)
		}
	})
}

func value(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return rapid.Int64().Draw(t, "int")
	case 1:
		return rapid.Float64Range(0.1, 0.9).Draw(t, "float")
	case 2:
		return rapid.StringMatching(`[a-z"\\<é]*`).Draw(t, "string")
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4:
		if depth > 0 {
			return []any{value(t, depth-1)}
		}
	case 5:
		if depth > 0 {
			return map[string]any{"x": value(t, depth-1)}
		}
	}
	return nil
}

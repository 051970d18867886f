package mergediff

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type named string

// TestACopyOfWhatAPersonWroteIsAsItIsRead: DeepCopyObject of apimachinery panics at most of this.
func TestACopyOfWhatAPersonWroteIsAsItIsRead(t *testing.T) {
	at := time.Date(2026, 11, 28, 1, 2, 3, 4, time.UTC)
	fn := func() {}
	for name, tt := range map[string]struct{ value, want any }{
		"an int":                 {5, int64(5)},
		"an int32":               {int32(-5), int64(-5)},
		"a uint64":               {uint64(1<<63 + 1), json.Number("9223372036854775809")},
		"beyond 2^53":            {int64(9007199254740993), int64(9007199254740993)},
		"a number as text":       {json.Number("9007199254740993"), json.Number("9007199254740993")},
		"a float32":              {float32(1.5), 1.5},
		"a named string":         {named("a"), "a"},
		"strings":                {[]string{"a", "b"}, []any{"a", "b"}},
		"strings by name":        {map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		"bytes":                  {[]byte("x"), "eA=="},
		"a time":                 {at, "2026-11-28T01:02:03.000000004Z"},
		"a duration":             {time.Second, int64(time.Second)},
		"a struct":               {struct{ A int }{3}, map[string]any{"A": int64(3)}},
		"a nil pointer":          {(*int)(nil), nil},
		"nothing":                {nil, nil},
		"no list":                {[]any(nil), []any(nil)},
		"an empty list":          {[]any{}, []any{}},
		"in a list":              {[]any{map[string]any{"a": 1}}, []any{map[string]any{"a": int64(1)}}},
		"maps in a list of maps": {[]map[string]any{{"a": 1}}, []any{map[string]any{"a": int64(1)}}},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"x": tt.value}}}
		got := CopyOf(u).Object["spec"].(map[string]any)["x"]
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %#v becomes %#v, want %#v", name, tt.value, got, tt.want)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"list": []any{"a"}, "x": fn}}}
	c := CopyOf(u)
	c.Object["spec"].(map[string]any)["list"].([]any)[0] = "b"
	if u.Object["spec"].(map[string]any)["list"].([]any)[0] != "a" {
		t.Error("the copy shares a list")
	}
	if _, err := json.Marshal(c.Object); err == nil {
		t.Error("what JSON does not take is gone")
	}
	if CopyOf[*unstructured.Unstructured](nil) != nil || CopyOf(&unstructured.Unstructured{}).Object != nil {
		t.Error("nothing becomes something")
	}
}

package entity

import (
	stdjson "encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestMergePatchDoesWhatTheRFCSays(t *testing.T) {
	// Appendix A of RFC 7386.
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := mergePatch([]byte(c[0]), []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s patched with %s: got %s, %v; want %s", c[0], c[1], got, err, c[2])
		}
	}
}

// referencePatch is the pseudocode of RFC 7386 over decoded values.
func referencePatch(target, patch any) any {
	object, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		for name, value := range old {
			result[name] = value
		}
	}
	for name, value := range object {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = referencePatch(result[name], value)
	}
	return result
}

func jsonValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.StringMatching(`[a-z<&"]{0,3}`).AsAny(),
		rapid.Map(rapid.IntRange(-9, 9), func(i int) any { return float64(i) }),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	name := rapid.SampledFrom([]string{"a", "b", "c", "<d>"})
	return rapid.OneOf(append(leaves,
		rapid.Map(rapid.SliceOfN(jsonValue(depth-1), 0, 2), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(name, jsonValue(depth-1), 0, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.MapOfN(name, jsonValue(depth-1), 0, 3), func(m map[string]any) any { return m }))...)
}

func TestMergePatchAgreesWithTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target, patch := jsonValue(3).Draw(t, "target"), jsonValue(3).Draw(t, "patch")
		rawTarget, _ := stdjson.Marshal(target)
		rawPatch, _ := stdjson.Marshal(patch)
		want, _ := stdjson.Marshal(referencePatch(target, patch))
		got, err := mergePatch(rawTarget, rawPatch)
		if err != nil || !sameJSON(got, want) {
			t.Fatalf("%s patched with %s: got %s, %v; want %s", rawTarget, rawPatch, got, err, want)
		}
	})
}

package mergediff

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestAMergeDiffMakesOneObjectOfTheOther, whatever they are, and is nothing for equal ones.
func TestAMergeDiffMakesOneObjectOfTheOther(t *testing.T) {
	var object func(depth int) *rapid.Generator[map[string]any]
	object = func(depth int) *rapid.Generator[map[string]any] {
		values := []*rapid.Generator[any]{
			rapid.Just[any]("one"), rapid.Just[any]("two"), rapid.Just[any](int64(1)), rapid.Just[any]([]any{"a",
				"b"}), rapid.Just[any]([]any{}),
		}
		if depth > 0 {
			values = append(values, object(depth-1).AsAny())
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.OneOf(values...), 0, 4)
	}
	rapid.Check(t, func(t *rapid.T) {
		before, after := object(3).Draw(t, "before"), object(3).Draw(t, "after")
		patch := Between(before, after)
		if got := merged(before, patch); !reflect.DeepEqual(got, after) {
			t.Fatalf("%v makes %v, want %v", patch, got, after)
		}
		if again := Between(after, after); again != nil {
			t.Fatalf("%v for two that are equal", again)
		}
	})
}

// TestWhatATypeKnowsAllOfIsCarriedOverAsItIs: with nothing that it does not know, lists included, the result is what
// was wanted.
func TestWhatATypeKnowsAllOfIsCarriedOverAsItIs(t *testing.T) {
	item := rapid.Custom(func(t *rapid.T) any { // names are not unique
		fields := map[string]any{"value": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "value")}
		if name := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "name"); name != "" {
			fields["name"] = name
		}
		return fields
	})
	object := rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{
			"items": rapid.SliceOfN(item, 0, 5).Draw(t, "items"),
			"spec":  rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), item, 0, 2).Draw(t, "spec"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, after := object.Draw(t, "before"), object.Draw(t, "after")
		if got := CarryOver(before, before, after); !reflect.DeepEqual(got, after) {
			t.Fatalf("%v, want %v", got, after)
		}
	})
}

// TestWhatATypeDoesNotKnowStaysWithItsItem, though others have the same key, and whether items go, move, change or
// come.
func TestWhatATypeDoesNotKnowStaysWithItsItem(t *testing.T) {
	// Two tolerations may have one key. What the type does not know names each.
	item := func(key, effect, unknown string) map[string]any {
		fields := map[string]any{"key": key, "effect": effect}
		if unknown != "" {
			fields["unknown"] = unknown
		}
		return fields
	}
	full := []any{item("a", "NoSchedule", "first"), item("a", "NoExecute", "second"), item("b", "NoExecute", "third")}
	before := []any{item("a", "NoSchedule", ""), item("a", "NoExecute", ""), item("b", "NoExecute", "")}
	for name, test := range map[string]struct{ after, want []any }{
		"one goes":  {[]any{before[1], before[2]}, []any{full[1], full[2]}},
		"they move": {[]any{before[2], before[1], before[0]}, []any{full[2], full[1], full[0]}},
		"one changes": {[]any{before[0], before[1], item("b", "NoSchedule", "")},
			[]any{full[0], full[1], item("b", "NoSchedule", "third")}},
		"one of a shared key changes": {[]any{before[0], item("a", "Prefer", ""), before[2]},
			[]any{full[0], item("a", "Prefer", "second"), full[2]}},
		"which of two has changed": {[]any{item("a", "Prefer", ""), before[2]},
			[]any{item("a", "Prefer", ""), full[2]}},
		"all of a shared key change": {[]any{item("a", "X", ""), item("a", "Y", ""), before[2]},
			[]any{item("a", "X", "first"), item("a", "Y", "second"), full[2]}},
		"one goes and another comes": {[]any{before[1], item("a", "Prefer", ""), before[2]},
			[]any{full[1], item("a", "Prefer", ""), full[2]}},
		"a second one of its key comes": {[]any{before[0], before[1], before[2], item("b", "Prefer", "")},
			[]any{full[0], full[1], full[2], item("b", "Prefer", "")}},
	} {
		if got := CarryOver(full, before, test.after); !reflect.DeepEqual(got, any(test.want)) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// merged is RFC 7386.
func merged(target any, patch map[string]any) map[string]any {
	out := map[string]any{}
	if fields, ok := target.(map[string]any); ok {
		for name, value := range fields {
			out[name] = value
		}
	}
	for name, value := range patch {
		if value == nil {
			delete(out, name)
			continue
		}
		if fields, ok := value.(map[string]any); ok {
			out[name] = merged(out[name], fields)
			continue
		}
		out[name] = value
	}
	return out
}

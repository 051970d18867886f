package mergediff

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// objects draws JSON objects of few names, so that two of them have much in common.
func objects(depth int) *rapid.Generator[map[string]any] {
	values := []*rapid.Generator[any]{
		rapid.Just[any]("one"), rapid.Just[any]("two"), rapid.Just[any](nil), rapid.Just[any]([]any{}),
		rapid.Just[any]([]any{"a"}), rapid.Just[any]([]any{"a", "b"}),
	}
	if depth > 0 {
		values = append(values, objects(depth-1).AsAny())
	}
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.OneOf(values...), 0, 3)
}

// derived draws an object that somebody made of another one: members are as they were, changed, left out or added.
func derived(t *rapid.T, label string, from map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		value, is := from[name]
		inner, isObject := value.(map[string]any)
		switch how := rapid.SampledFrom([]string{"keep", "keep", "change", "drop"}).Draw(t, label+"."+name); {
		case how == "keep" && is:
			out[name] = value
		case how == "change" && isObject:
			out[name] = derived(t, label+"."+name, inner)
		case how == "change":
			out[name] = objects(1).Draw(t, label+"."+name)[name]
		}
	}
	return out
}

// TestWhatNobodyChangedThroughAViewStays, and what somebody changed of a whole view is as it was changed.
func TestWhatNobodyChangedThroughAViewStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := objects(2).Draw(t, "full")
		view := derived(t, "view", full)
		if got, err := ThroughView(full, view, view); err != nil || !reflect.DeepEqual(withoutNulls(got), withoutNulls(full)) {
			t.Fatalf("%v, %v; want %v", got, err, full)
		}
		if got, err := ThroughView(full, view, full); err != nil || !reflect.DeepEqual(withoutNulls(got), withoutNulls(full)) {
			t.Fatalf("written as it is: %v, %v; want %v", got, err, full)
		}
		if got, err := ThroughView(full, full, view); err != nil || !reflect.DeepEqual(withoutNulls(got), withoutNulls(view)) {
			t.Fatalf("through a whole view: %v, %v; want %v", got, err, view)
		}
	})
}

// withoutNulls is for comparisons: a member that is null says no more than one that is not there.
func withoutNulls(object map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		if inner, ok := value.(map[string]any); ok {
			value = withoutNulls(inner)
		}
		if value != nil {
			out[name] = value
		}
	}
	return out
}

// TestNothingThatAViewHasNotIsLost: it is in the result, or what was written has another value there, or it is refused.
func TestNothingThatAViewHasNotIsLost(t *testing.T) {
	var check func(t *rapid.T, path string, full, view, changed, got map[string]any)
	check = func(t *rapid.T, path string, full, view, changed, got map[string]any) {
		for name, value := range full {
			at := path + "." + name
			shown, isShown := view[name]
			written, isWritten := changed[name]
			inner, isObject := value.(map[string]any)
			shownInner, shownObject := shown.(map[string]any)
			if isObject && (shownObject || !isShown) && len(inner) > 0 {
				gotInner, ok := got[name].(map[string]any)
				if !ok && !reflect.DeepEqual(value, shown) {
					t.Fatalf("%s is gone: %v", at, got)
				}
				writtenInner, _ := written.(map[string]any)
				if ok {
					check(t, at, inner, shownInner, writtenInner, gotInner)
				}
				continue
			}
			if !isShown && !isWritten && value != nil && !reflect.DeepEqual(got[name], value) {
				t.Fatalf("%s is %v, was %v", at, got[name], value)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		full := objects(2).Draw(t, "full")
		view := derived(t, "view", full)
		changed := derived(t, "changed", view)
		got, err := ThroughView(full, view, changed)
		if refused, ok := errors.AsType[*BothChanged](err); err != nil && (!ok || len(refused.Path) == 0) {
			t.Fatal(err)
		}
		if err == nil {
			check(t, "", full, view, changed, got)
		}
	})
}

// TestWhatBothHaveChanged: a single value is as it was written, members of objects are put together, and of lists and
// whole objects parts would be lost.
func TestWhatBothHaveChanged(t *testing.T) {
	type object = map[string]any
	full := object{
		"text": "long", "list": []any{"a", "b"}, "none": []any{},
		"object": object{"shown": "1", "hidden": "2"}, "hidden": object{"a": "1"},
	}
	for name, c := range map[string]struct {
		view, changed, want object // no want: the error names the path
		path                string
	}{
		"text":     {object{"text": "lo"}, object{"text": "new"}, object{"text": "new"}, ""},
		"no text":  {object{"text": "lo"}, object{}, object{"text": nil}, ""},
		"no list":  {object{}, object{"none": []any{"x"}}, object{"none": []any{"x"}}, ""},
		"list":     {object{"list": []any{"a"}}, object{"list": []any{"a", "c"}}, nil, "list"},
		"new list": {object{}, object{"list": []any{"c"}}, nil, "list"},
		"its end":  {object{"list": []any{"a"}}, object{}, nil, "list"},
		"member": {
			object{"object": object{"shown": "1"}}, object{"object": object{"shown": "3", "new": "4"}},
			object{"object": object{"shown": "3", "new": "4", "hidden": "2"}}, "",
		},
		"no member": {
			object{"object": object{"shown": "1"}}, object{"object": object{}}, object{"object": object{"hidden": "2"}}, "",
		},
		"no object":  {object{"object": object{"shown": "1"}}, object{}, nil, "object"},
		"new object": {object{}, object{"hidden": object{"b": "2"}}, object{"hidden": object{"a": "1", "b": "2"}}, ""},
		"added":      {object{"extra": "1"}, object{"extra": "2"}, object{"extra": "2"}, ""},
		"added, not": {object{"extra": "1"}, object{"extra": "1"}, object{}, ""},
	} {
		got, err := ThroughView(full, c.view, c.changed)
		if refused, ok := errors.AsType[*BothChanged](err); c.want == nil {
			if !ok || strings.Join(refused.Path, ".") != c.path || !strings.HasPrefix(err.Error(), c.path+" ") {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		want := object{}
		for _, from := range []object{full, c.want} {
			for member, value := range from {
				want[member] = value
			}
		}
		if want = withoutNulls(want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

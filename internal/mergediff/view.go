package mergediff

import (
	"reflect"
	"strings"
)

// BothChanged says that what a view and its reader have both changed cannot be put together.
type BothChanged struct{ Path []string }

// Error names the path.
func (e *BothChanged) Error() string {
	return strings.Join(e.Path, ".") + " is not as in the document in what was read, and was changed"
}

// ThroughView returns full with what was changed between view and changed, where view is what a program has made of
// full: it may have left out, changed and added anything. What it left out stays, in objects at any depth. A value that
// it changed is full's, unless its reader has changed it, too. The error is a *BothChanged, of a list or a whole object
// that both have changed: parts of it would be lost.
func ThroughView(full, view, changed map[string]any) (map[string]any, error) {
	return throughObject(nil, full, view, changed)
}

// absent stands for a member that is not there.
type absent struct{}

func throughObject(path []string, full, view, changed map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, object := range []map[string]any{full, view, changed} {
		for name := range object {
			if _, done := out[name]; done {
				continue
			}
			value, err := through(append(path[:len(path):len(path)], name),
				member(full, name), member(view, name), member(changed, name))
			if err != nil {
				return nil, err
			}
			out[name] = value
		}
	}
	for name, value := range out {
		if value == (absent{}) {
			delete(out, name)
		}
	}
	return out, nil
}

func member(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return absent{}
}

func through(path []string, full, view, changed any) (any, error) {
	switch {
	case same(view, changed), same(full, changed):
		return full, nil
	case same(full, view), !hasParts(full):
		return changed, nil
	}
	all, ok1 := full.(map[string]any)
	after, ok2 := changed.(map[string]any)
	before, ok3 := view.(map[string]any)
	if ok1 && ok2 && (ok3 || isNothing(view)) {
		return throughObject(path, all, before, after)
	}
	return nil, &BothChanged{path}
}

func same(a, b any) bool { return isNothing(a) && isNothing(b) || reflect.DeepEqual(a, b) }

func isNothing(value any) bool { return value == nil || value == any(absent{}) }

// hasParts reports whether something would be lost of a value if another took its place, besides the value itself.
func hasParts(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) > 0
	case []any:
		return len(value) > 0
	}
	return false
}

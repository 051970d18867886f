package dryrun

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Field is one value that differs. From is "" where there was none, and To where there would be none; else both are
// JSON, cut off where they are long.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

const (
	// FieldsShown is how many fields a change shows.
	FieldsShown = 40
	// valueShown is how many bytes of a value are shown.
	valueShown = 200
	// Hidden stands for a value that must not be shown.
	Hidden = "(secret)"
)

// serverSet are the members of metadata that servers set, and that say nothing of what a write wants.
var serverSet = map[string]bool{
	"resourceVersion": true, "generation": true, "managedFields": true, "uid": true, "creationTimestamp": true,
	"selfLink": true,
}

// differ finds the values that differ.
type differ struct {
	before, after State
	fields        []Field
}

// FieldsOf are the values of a JSON document.
func FieldsOf(document []byte) []Field {
	value := Decoded(document)
	return between(State{}, State{JSON: value, Open: value})
}

// Decoded is a JSON document with its numbers as they are; nil for what is none.
func Decoded(document []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

func between(before, after State) []Field {
	d := &differ{before: before, after: after}
	d.compare(nil, before.JSON, after.JSON)
	return d.fields
}

func (d *differ) compare(path []string, before, after any) {
	if len(path) == 2 && path[0] == "metadata" && serverSet[path[1]] || reflect.DeepEqual(before, after) {
		return
	}
	if !isOpen(d.before, path, before) || !isOpen(d.after, path, after) {
		d.add(path, shown(before, Hidden), shown(after, Hidden))
		return
	}
	if a, b, ok := asObjects(before, after); ok {
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			d.compare(append(path[:len(path):len(path)], name), a[name], b[name])
		}
		return
	}
	if a, b, ok := asLists(before, after); ok {
		for i := range max(len(a), len(b)) {
			d.compare(append(path[:len(path):len(path)], strconv.Itoa(i)), at(a, i), at(b, i))
		}
		return
	}
	d.add(path, d.before.text(path, before), d.after.text(path, after))
}

// text is a value of a state, which is at a path. Where something in it must not be shown, nothing of it is.
func (s State) text(path []string, value any) string {
	if open, ok := s.openAt(path); value != nil && (!ok || !reflect.DeepEqual(open, value)) {
		return Hidden
	}
	return text(value)
}

// openAt is what may be shown at a path; ok is false if nothing may.
func (s State) openAt(path []string) (value any, ok bool) {
	value = s.Open
	for _, step := range path {
		switch of := value.(type) {
		case map[string]any:
			if value, ok = of[step]; !ok {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(of) {
				return nil, false
			}
			value = of[n]
		default:
			return nil, false
		}
	}
	return value, true
}

func (d *differ) add(path []string, from, to string) {
	d.fields = append(d.fields, Field{Path: pathText(path), From: from, To: to})
}

// isOpen reports whether something of a value, which is at a path of a state, may be shown.
func isOpen(state State, path []string, value any) bool {
	open, ok := state.openAt(path)
	if !ok {
		return value == nil
	}
	list, isList := value.([]any)
	shown, _ := open.([]any)
	return !isList || len(list) == len(shown)
}

// asObjects are two values of which one is an object with members, and the other one, or nothing.
func asObjects(before, after any) (a, b map[string]any, ok bool) {
	a, isA := before.(map[string]any)
	b, isB := after.(map[string]any)
	return a, b, (isA || before == nil) && (isB || after == nil) && len(a)+len(b) > 0
}

func asLists(before, after any) (a, b []any, ok bool) {
	a, isA := before.([]any)
	b, isB := after.([]any)
	return a, b, (isA || before == nil) && (isB || after == nil) && len(a)+len(b) > 0
}

func union(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, b)
	return both
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// shown is what stands for a value that is there; "" for none.
func shown(value any, instead string) string {
	if value == nil {
		return ""
	}
	return instead
}

func text(value any) string {
	if value == nil {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "(no JSON)"
	}
	if len(data) > valueShown {
		return strings.ToValidUTF8(string(data[:valueShown]), "") + "…"
	}
	return string(data)
}

// pathText is a path as people write it: spec.hosts[0], metadata.annotations["a.b"].
func pathText(path []string) string {
	var b strings.Builder
	for _, step := range path {
		switch _, err := strconv.Atoi(step); {
		case err == nil:
			b.WriteString("[" + step + "]")
		case step == "" || strings.ContainsAny(step, `.[]"' `):
			b.WriteString("[" + strconv.Quote(step) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

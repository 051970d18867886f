package kinds

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// UnknownMember is a member of a document that its kind does not know, so that nobody reads it.
type UnknownMember struct {
	Path  string // spec.hots
	Meant string // spec.host, if a member that is known has almost this name
}

// About says it of a kind.
func (u UnknownMember) About(kind string) string {
	text := fmt.Sprintf("%s is not known to %s", printable.Text(u.Path), printable.Text(kind))
	if u.Meant != "" {
		text += ": did you mean " + printable.Text(u.Meant) + "?"
	}
	return text
}

// envelope are the members beside those that a schema names, and metadata those of metadata.
var (
	envelope = []string{"kind", "apiVersion", "metadata", "status", "record"}
	metadata = []string{
		"name", "namespace", "labels", "annotations", "creationTimestamp", "deletionGracePeriodSeconds",
		"deletionTimestamp", "finalizers", "generateName", "generation", "managedFields", "ownerReferences",
		"resourceVersion", "selfLink", "uid",
	}
)

// Unknown finds the members of a document that neither the schema of its kind names, nor leaves to the user, as maps
// and what has additionalProperties. Names match in any case, as they do when a document is decoded. Of a kind without
// a schema metadata alone is known.
func (k *Kind) Unknown(document map[string]any) (found []UnknownMember) {
	if meta, ok := document["metadata"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(meta)) {
			if !containsFold(metadata, name) {
				found = append(found, UnknownMember{"metadata." + name, under("metadata", nearest(name, metadata))})
			}
		}
	}
	root := k.schemaTree()
	if root == nil {
		return found
	}
	w := unknowns{secrets: secrets{root}, found: found}
	rest := maps.Clone(document)
	for _, name := range envelope {
		delete(rest, name)
	}
	w.object(rest, []map[string]any{root}, "")
	return w.found
}

func under(path, name string) string {
	if name == "" || path == "" {
		return name
	}
	return path + "." + name
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, name) })
}

// unknowns walks a value and its schemas together; all of the schemas say something of it.
type unknowns struct {
	secrets
	found []UnknownMember
	steps int // that are left for the shape that is made
}

// mostSteps bounds how much of a schema is followed for one value: it may refer to itself in several places.
const mostSteps = 10_000

func (w *unknowns) value(v any, schemas []map[string]any, path string) {
	switch v := v.(type) {
	case map[string]any:
		w.object(v, schemas, path)
	case []any:
		s := w.shapeOf(schemas)
		for i, element := range v {
			w.value(element, s.items, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (w *unknowns) object(object map[string]any, schemas []map[string]any, path string) {
	s := w.shapeOf(schemas)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := under(path, name)
		of, known := s.member(name)
		switch {
		case known:
			w.value(object[name], of, at)
		case s.names && !s.open:
			all := slices.Collect(maps.Keys(s.members))
			if path == "" {
				all = append(all, envelope...)
			}
			w.found = append(w.found, UnknownMember{at, under(path, nearest(name, all))})
		}
	}
}

// shape is what schemas say of the members of an object, and of the elements of a list.
type shape struct {
	members  map[string][]map[string]any
	patterns map[*regexp.Regexp][]map[string]any
	others   []map[string]any // of all other members
	items    []map[string]any
	names    bool // something says which members there are
	open     bool // or that there may be others
}

func (s *shape) member(name string) (of []map[string]any, known bool) {
	for member, schemas := range s.members {
		if strings.EqualFold(member, name) {
			of, known = append(of, schemas...), true
		}
	}
	for pattern, schemas := range s.patterns {
		if pattern.MatchString(name) {
			of, known = append(of, schemas...), true
		}
	}
	if !known && s.others != nil {
		return s.others, true
	}
	return of, known
}

func newShape() *shape {
	return &shape{members: map[string][]map[string]any{}, patterns: map[*regexp.Regexp][]map[string]any{}}
}

func (w *unknowns) shapeOf(schemas []map[string]any) *shape {
	s := newShape()
	w.steps = mostSteps
	for _, schema := range schemas {
		w.add(s, schema, 0)
	}
	return s
}

// add adds what a schema says, with what it refers to and its alternatives.
func (w *unknowns) add(s *shape, schema map[string]any, depth int) {
	if w.steps--; depth > mostRefs || w.steps < 0 {
		s.open = true
		return
	}
	w.addOwn(s, schema)
	if ref, ok := schema["$ref"].(string); ok {
		if target := w.local(ref); target != nil {
			w.add(s, target, depth+1)
		} else {
			s.open = true
		}
	}
	if schema["$dynamicRef"] != nil || schema["dependentSchemas"] != nil {
		s.open = true
	}
	for _, word := range []string{"then", "else"} {
		if sub, ok := schema[word].(map[string]any); ok {
			w.add(s, sub, depth+1)
		}
	}
	all, _ := schema["allOf"].([]any)
	for _, one := range all {
		if sub, ok := one.(map[string]any); ok {
			w.add(s, sub, depth+1)
		}
	}
	named := s.names
	for _, word := range []string{"anyOf", "oneOf"} {
		all, _ := schema[word].([]any)
		for _, one := range all {
			sub, ok := one.(map[string]any)
			if !ok {
				s.open = s.open || one == true && !named
				continue
			}
			alternative := newShape()
			w.add(alternative, sub, depth+1)
			s.merge(alternative)
			s.open = s.open || !named && !alternative.names && mayBeObject(sub)
		}
	}
}

// addOwn adds what a schema says by itself.
func (w *unknowns) addOwn(s *shape, schema map[string]any) {
	sub := func(v any) []map[string]any {
		if one, ok := v.(map[string]any); ok {
			return []map[string]any{one}
		}
		return nil
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		s.names = true
		for name, of := range properties {
			s.members[name] = append(s.members[name], sub(of)...)
		}
	}
	patterns, _ := schema["patternProperties"].(map[string]any)
	for text, of := range patterns {
		s.names = true
		if pattern, err := regexp.Compile(text); err == nil {
			s.patterns[pattern] = sub(of)
		} else {
			s.open = true
		}
	}
	for _, word := range []string{"additionalProperties", "unevaluatedProperties"} {
		switch of := schema[word].(type) {
		case bool:
			s.names, s.open = true, s.open || of
		case map[string]any:
			s.names, s.others = true, append(s.others, of)
		}
	}
	s.items = append(s.items, sub(schema["items"])...)
}

func (s *shape) merge(other *shape) {
	for name, of := range other.members {
		s.members[name] = append(s.members[name], of...)
	}
	maps.Copy(s.patterns, other.patterns)
	s.others, s.items = append(s.others, other.others...), append(s.items, other.items...)
	s.names, s.open = s.names || other.names, s.open || other.open
}

// mayBeObject reports whether a schema that names no members allows an object.
func mayBeObject(schema map[string]any) bool {
	switch of := schema["type"].(type) {
	case string:
		return of == "object"
	case []any:
		return slices.Contains(of, any("object"))
	}
	return schema["enum"] == nil && schema["const"] == nil && schema["$ref"] == nil && schema["items"] == nil
}

// local is what a reference within the schema refers to; nil for another one.
func (w *unknowns) local(ref string) map[string]any {
	if !strings.HasPrefix(ref, "#") {
		return nil
	}
	return w.resolve(ref)
}

// nearest is the one of some names that differs from a name in a key or two; "" if none does.
func nearest(name string, all []string) string {
	best, least := "", 3
	slices.Sort(all)
	for _, other := range all {
		if d := typed(name, other); d < least && 2*d < cmp.Or(len(other), 1) {
			best, least = other, d
		}
	}
	return best
}

// typed is how many keys were typed wrong, too many or too few, or in the wrong order, for b to become a.
func typed(a, b string) int {
	lower := func(s string) []rune { return []rune(strings.Map(unicode.ToLower, s)) }
	x, y := lower(a), lower(b)
	if len(x) > len(y)+2 || len(y) > len(x)+2 {
		return len(x) + len(y)
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case x[i-1] == y[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

package jsonshape

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// With adds fields that are named by their paths, as in "spec.password", "spec.users[].token" for a member of each
// element of an array, and "spec.backends.*.key" for one of each member of an object. t is the type of the documents;
// nil allows every path. The error says what is wrong with a path, and which field was meant.
func (f *Secrets) With(paths []string, t reflect.Type) (*Secrets, error) {
	if len(paths) == 0 {
		return f, nil
	}
	with := &Secrets{paths: &secretNode{takes: anyForm}}
	if f != nil {
		with.tagged = f.tagged
	}
	for _, path := range paths {
		steps, err := stepsOf(path)
		if err == nil && t != nil {
			err = check(t, steps)
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", path, err)
		}
		n := with.paths
		for _, step := range steps {
			n = n.below(step)
		}
		n.secret = true
	}
	with.paths.spread()
	return with, nil
}

// spread gives the members with a name what is said of all members.
func (n *secretNode) spread() {
	for _, member := range n.members {
		member.add(n.each)
		member.spread()
	}
	if n.each != nil {
		n.each.spread()
	}
}

// add adds what another node says.
func (n *secretNode) add(other *secretNode) {
	if other == nil {
		return
	}
	n.secret = n.secret || other.secret
	for name, member := range other.members {
		n.below(name).add(member)
	}
	if other.each != nil {
		n.below(anyMember).add(other.each)
	}
}

// anyElement is the step to each element of an array, or to each member of an object.
const (
	anyElement = "[]"
	anyMember  = "*"
)

func stepsOf(path string) (steps []string, err error) {
	for _, name := range strings.Split(path, ".") {
		elements := 0
		for strings.HasSuffix(name, anyElement) {
			name = strings.TrimSuffix(name, anyElement)
			elements++
		}
		if name == "" {
			return nil, errors.New(
				`a path is written as "spec.password", "spec.users[].token" or "spec.backends.*.key"`)
		}
		steps = append(steps, name)
		for range elements {
			steps = append(steps, anyElement)
		}
	}
	return steps, nil
}

func (n *secretNode) below(step string) *secretNode {
	if step == anyElement || step == anyMember {
		if n.each == nil {
			n.each = &secretNode{takes: anyForm}
		}
		return n.each
	}
	if n.members == nil {
		n.members = map[string]*secretNode{}
	}
	if n.members[step] == nil {
		n.members[step] = &secretNode{takes: anyForm}
	}
	return n.members[step]
}

// check tells of a path that documents of a type cannot have. A member may be of several types, as packages of JSON
// differ.
func check(t reflect.Type, steps []string) error {
	types := []reflect.Type{t}
	for _, step := range steps {
		var next []reflect.Type
		var wrong error
		for _, t := range types {
			below, anything, err := stepInto(PointedOr(t), step)
			if anything {
				return nil
			}
			next, wrong = append(next, below...), cmp.Or(wrong, err)
		}
		if len(next) == 0 {
			return wrong
		}
		types = next
	}
	return nil
}

// stepInto returns the types that a step leads to; anything says that it may lead anywhere.
func stepInto(t reflect.Type, step string) (below []reflect.Type, anything bool, err error) {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if isBytes(t) {
			return nil, true, nil // a raw document, which may have everything
		}
		if step != anyElement {
			return nil, false, fmt.Errorf("there is an array before %q: write %q after the array's name",
				step, anyElement)
		}
		return []reflect.Type{t.Elem()}, false, nil
	case reflect.Map:
		if step == anyElement {
			return nil, false, fmt.Errorf("it is an object and no array: name a member, or %q for all", anyMember)
		}
		return []reflect.Type{t.Elem()}, false, nil
	case reflect.Struct:
		named, rest := map[string]*parts{}, parts{}
		addFields(t, named, &rest)
		if len(named) == 0 && len(rest.types) == 0 {
			return nil, true, nil // its JSON is made by a method
		}
		if of, ok := named[step]; ok {
			return of.types, false, nil
		}
		if len(rest.types) > 0 {
			return rest.types, slices.ContainsFunc(rest.types, isBytes), nil
		}
		return nil, false, fmt.Errorf("there is no %q in %v%s", step, t, meant(step, named))
	case reflect.Interface:
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("there is nothing below a %v", t)
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// meant names the members that a misspelt one may be.
func meant(step string, named map[string]*parts) string {
	names := slices.Sorted(maps.Keys(named))
	if best := Nearest(step, names); best != "" {
		return fmt.Sprintf(": is it %q?", best)
	}
	return ": it has " + strings.Join(names, ", ")
}

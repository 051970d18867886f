package secrets

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/members"
)

// With adds fields that are named by their paths, as in "spec.password", "spec.users[].token" for a member of each
// element of an array, and "spec.backends.*.key" for one of each member of an object. t is the type of the documents;
// nil allows every path. The error says what is wrong with a path, and which field was meant.
func (f *Fields) With(paths []string, t reflect.Type) (*Fields, error) {
	if len(paths) == 0 {
		return f, nil
	}
	with := &Fields{paths: &node{}}
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
	return with, nil
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

func (n *node) below(step string) *node {
	if step == anyElement || step == anyMember {
		if n.each == nil {
			n.each = &node{}
		}
		return n.each
	}
	if n.members == nil {
		n.members = map[string]*node{}
	}
	if n.members[step] == nil {
		n.members[step] = &node{}
	}
	return n.members[step]
}

// check tells of a path that documents of a type cannot have.
func check(t reflect.Type, steps []string) error {
	for _, step := range steps {
		t = pointed(t)
		switch t.Kind() {
		case reflect.Slice, reflect.Array:
			if isBytes(t) {
				return nil // a raw document, which may have everything
			}
			if step != anyElement {
				return fmt.Errorf("there is an array before %q: write %q after the array's name", step, anyElement)
			}
			t = t.Elem()
		case reflect.Map:
			if step == anyElement {
				return fmt.Errorf("it is an object and no array: name a member, or %q for all", anyMember)
			}
			t = t.Elem()
		case reflect.Struct:
			types := map[string]reflect.Type{}
			memberTypes(t, types, map[reflect.Type]bool{})
			if len(types) == 0 {
				return nil // its JSON is made by a method
			}
			next, ok := types[step]
			if !ok {
				return fmt.Errorf("there is no %q in %v%s", step, t, meant(step, types))
			}
			t = next
		case reflect.Interface:
			return nil
		default:
			return fmt.Errorf("there is nothing below a %v", t)
		}
	}
	return nil
}

func isBytes(t reflect.Type) bool { return t.Elem().Kind() == reflect.Uint8 }

func memberTypes(t reflect.Type, types map[string]reflect.Type, within map[reflect.Type]bool) {
	if within[t] {
		return
	}
	within[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, inlined, ok := jsonName(f)
		switch {
		case !ok:
		case inlined:
			memberTypes(structOf(f.Type), types, within)
		case types[name] == nil:
			types[name] = f.Type
		}
	}
}

// meant names the members that a misspelt one may be.
func meant(step string, types map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(types))
	if best := members.Nearest(step, names); best != "" {
		return fmt.Sprintf(": is it %q?", best)
	}
	return ": it has " + strings.Join(names, ", ")
}

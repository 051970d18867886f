// Package secrets leaves the fields that a user marked as secret out of JSON documents.
package secrets

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// A field is marked by the struct tag `nagi:"secret"`.
const (
	tagName = "nagi"
	marked  = "secret"
)

// Fields are the secret members of the JSON documents of a type. Nil means that there are none.
type Fields struct {
	tagged *node // a graph, with cycles where types have them
	paths  *node // a tree
}

// node says what is secret in one JSON value.
type node struct {
	secret  bool
	members map[string]*node // of an object, by name
	each    *node            // of an array, or of an object of any names: all elements
}

// member returns what is secret in a member. Names are compared as encoding/json does, without regard to case.
func (n *node) member(name string) *node {
	if found, ok := n.members[name]; ok {
		return found
	}
	for known, found := range n.members {
		if strings.EqualFold(known, name) {
			return found
		}
	}
	return n.each
}

// reaches reports whether anything below is secret.
func (n *node) reaches(seen map[*node]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	if n.secret {
		return true
	}
	seen[n] = true
	for _, member := range n.members {
		if member.reaches(seen) {
			return true
		}
	}
	return n.each.reaches(seen)
}

// known are the results of Of, which are the same each time.
var known sync.Map

type result struct {
	fields *Fields
	err    error
}

// Of returns what is tagged as secret in a type, at any depth that its JSON shows. The error is about a tag that says
// something else.
func Of(t reflect.Type) (*Fields, error) {
	if found, ok := known.Load(t); ok {
		return found.(result).fields, found.(result).err
	}
	r := reader{nodes: map[reflect.Type]*node{}}
	tagged := r.node(t)
	of := result{err: r.err}
	if r.err == nil && tagged.reaches(map[*node]bool{}) {
		of.fields = &Fields{tagged: tagged}
	}
	known.Store(t, of)
	return of.fields, of.err
}

// Has reports whether a member of the documents, or something in it, is secret.
func (f *Fields) Has(member string) bool {
	if f == nil {
		return false
	}
	for _, n := range []*node{f.tagged, f.paths} {
		if n != nil && n.member(member).reaches(map[*node]bool{}) {
			return true
		}
	}
	return false
}

// reader makes nodes of types, one for each type.
type reader struct {
	nodes map[reflect.Type]*node
	err   error
}

func (r *reader) node(t reflect.Type) *node {
	t = pointed(t)
	if n, ok := r.nodes[t]; ok {
		return n
	}
	n := &node{}
	r.nodes[t] = n
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		n.each = r.node(t.Elem())
	case reflect.Struct:
		n.members = map[string]*node{}
		r.fields(t, n.members, false, map[reflect.Type]bool{})
	}
	return n
}

// pointed returns what a pointer leads to.
func pointed(t reflect.Type) reflect.Type {
	for first := t; t.Kind() == reflect.Pointer; {
		if t = t.Elem(); t == first {
			break // type P *P
		}
	}
	return t
}

// fields adds the members that the fields of a struct become. The fields of an embedded struct are the outer one's.
// Where they have the same name, the outer one's own come first.
func (r *reader) fields(t reflect.Type, members map[string]*node, secret bool, within map[reflect.Type]bool) {
	if within[t] {
		return
	}
	within[t] = true
	for _, embedded := range []bool{false, true} {
		for i := range t.NumField() {
			f := t.Field(i)
			own := r.isMarked(t, f) || secret
			name, inlined, ok := jsonName(f)
			switch {
			case !ok || inlined != embedded:
			case inlined:
				r.fields(structOf(f.Type), members, own, within)
			case own:
				members[name] = &node{secret: true}
			case members[name] == nil:
				members[name] = r.node(f.Type)
			}
		}
	}
}

func (r *reader) isMarked(t reflect.Type, f reflect.StructField) bool {
	tag, ok := f.Tag.Lookup(tagName)
	if ok && tag != marked && r.err == nil {
		r.err = fmt.Errorf("field %s of %v has the tag %s:%q: only %s:%q is known",
			f.Name, t, tagName, tag, tagName, marked)
	}
	return ok
}

// jsonName returns the name of a field in JSON. inlined says that the field is a struct whose fields are members of the
// outer one; ok is false for a field that is not in JSON.
func jsonName(f reflect.StructField) (name string, inlined, ok bool) {
	tag := f.Tag.Get("json")
	name, _, _ = strings.Cut(tag, ",")
	switch {
	case tag == "-":
		return "", false, false
	case f.Anonymous && name == "" && structOf(f.Type) != nil:
		return "", true, true
	case !f.IsExported():
		return "", false, false
	case name == "":
		name = f.Name
	}
	return name, false, true
}

// structOf returns the struct that t is or points to; nil if it is another type.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// IsMarked reports whether a field has the tag that makes it secret.
func IsMarked(f reflect.StructField) bool { return f.Tag.Get(tagName) == marked }

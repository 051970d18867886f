// Package secrets leaves the fields that a user marked as secret out of JSON documents.
//
// The rule: what may be a secret is taken for one. Packages of JSON differ in which member a field is. A member is
// secret if it is by any of them, and where a method makes the JSON of a type with secrets, what the type's fields do
// not explain is left out, too.
package secrets

import (
	"reflect"
	"slices"
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

// node says what is secret in one JSON value: something is. Nil says that nothing is.
type node struct {
	secret  bool
	takes   forms            // another form is secret
	members map[string]*node // of an object, by name; nil for one that has no secrets
	each    *node            // of an array, or of an object of any names: all elements
	rest    *node            // of an object: members without a name in members
	opaque  bool             // a method made it: members of a struct that are not known are secret

	// What types have that is not in their JSON, unless a method writes it.
	keys, hidden *node
}

// member returns what is secret in a member.
func (n *node) member(name string) *node {
	found, known := n.lookUp(name)
	if !known && n.opaque && n.members != nil {
		return redacted
	}
	return found
}

// lookUp returns what is secret in a member, and whether it has a name that is known. Names are compared as
// encoding/json does: without regard to case, if there is no equal one.
func (n *node) lookUp(name string) (found *node, known bool) {
	if found, ok := n.members[name]; ok {
		return found, true
	}
	for other, member := range n.members {
		if strings.EqualFold(other, name) {
			found, known = either(found, member), true
		}
	}
	if known {
		return either(found, n.rest), true
	}
	return either(n.each, n.rest), false
}

// either is for a value of which it is not known which of two nodes it has.
func either(a, b *node) *node {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	}
	return redacted
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
	of := build(t, nil)
	known.Store(t, of)
	return of.fields, of.err
}

func build(t reflect.Type, dynamic []reflect.Type) (of result) {
	b := newBuilder(dynamic)
	root := b.root(t)
	if of.err = b.err; of.err == nil && root != nil {
		of.fields = &Fields{tagged: root}
	}
	return of
}

// Has reports whether a member of the documents, or something in it, is secret.
func (f *Fields) Has(member string) bool {
	if f == nil {
		return false
	}
	for _, n := range []*node{f.tagged, f.paths} {
		if n == nil {
			continue
		}
		if found, _ := n.lookUp(member); found != nil {
			return true
		}
	}
	return false
}

// Members returns the names of the secret members of a struct, in the order of the names.
func Members(t reflect.Type) (names []string) {
	named := map[string]*parts{}
	addFields(t, named, &parts{})
	for name, of := range named {
		if of.secret {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsMarked reports whether a field has the tag that makes it secret.
func IsMarked(f reflect.StructField) bool { return f.Tag.Get(tagName) == marked }

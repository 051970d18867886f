// Package members says what a Go type knows of JSON documents. It finds members that the type does not know, members
// that are there twice or in another case, and zeros that are written out although the type leaves them out (omitempty,
// omitzero). It puts unknown members and such zeros back into a document that was written without them.
//
// What a type knows is what encoding/json decodes into it. A type with its own UnmarshalJSON or UnmarshalText, an
// interface, and all that is below them, know everything. So do maps: each of their members is a key.
package members

import (
	"reflect"
	"slices"
	"strings"
)

// Shape is what a type knows. It is immutable.
type Shape struct{ root *node }

// Options say how documents of a type are decoded.
type Options struct {
	// Ignored are members of the document itself that nobody looks at, whatever is in them.
	Ignored []string
	// NotKept are names of members of the document ("") or of a member of it, of which a zero that is written out is
	// not kept.
	NotKept map[string][]string
}

// Of returns the shape of a type.
func Of(t reflect.Type, opts Options) *Shape {
	b := builder{nodes: map[reflect.Type]*node{}}
	of := b.node(t)
	if of == nil || !of.structure {
		return &Shape{of}
	}
	root := *of // the type may be below itself, where nothing is ignored
	root.fields = slices.Clone(root.fields)
	for _, name := range opts.Ignored {
		if i := root.find([]byte(name), 0); i >= 0 {
			root.fields[i].below = nil
		} else {
			root.fields = append(root.fields, field{name: name})
		}
		root.index()
	}
	root = *root.notKeeping(opts.NotKept[""])
	for name, below := range opts.NotKept {
		if i := root.find([]byte(name), 0); i >= 0 && root.fields[i].below != nil {
			root.fields[i].below = root.fields[i].below.notKeeping(below)
		}
	}
	return &Shape{&root}
}

// notKeeping returns a copy that keeps no zeros of these fields.
func (n *node) notKeeping(names []string) *node {
	out := *n
	out.fields = slices.Clone(n.fields)
	for i := range out.fields {
		if slices.Contains(names, out.fields[i].name) {
			out.fields[i].zeros = 0
		}
	}
	return &out
}

// Any is the shape of documents of which nothing is known: each member is, and none may be there twice.
func Any() *Shape { return &Shape{root: anything} }

// KnowsAll reports whether the type knows each member of each document, so that there is nothing to keep.
func (s *Shape) KnowsAll() bool { return !s.root.forgets(map[*node]bool{}) }

func (n *node) forgets(seen map[*node]bool) bool {
	if n == nil || seen[n] {
		return false
	}
	seen[n] = true
	if n.structure && !n.knowsAll {
		return true
	}
	for _, f := range n.fields {
		if f.below.forgets(seen) {
			return true
		}
	}
	return n.each.forgets(seen)
}

// node is what a type knows of one JSON value. Nil means that there is nothing to look for in it.
type node struct {
	structure bool // an object is a struct
	mapping   bool // an object is a map: its members are keys, and their values are each
	list      bool // an array has elements, which are each
	knowsAll  bool // a struct that keeps members without a field
	fields    []field
	byName    map[string]int // of the fields, where there are many
	each      *node
}

// field is a member that a struct has a field for.
type field struct {
	name     string
	below    *node
	nullable bool // null takes away what was decoded before
	mayOmit  bool // a value may be left out of a document although it was there
	strict   bool // other cases of the name are other names
	zeros    zeros
}

// anything is what an interface takes.
var anything = newAnything()

func newAnything() *node {
	n := &node{mapping: true, list: true}
	n.each = n
	return n
}

// scanned is up to how many fields are looked through one by one.
const scanned = 16

func (n *node) index() {
	if len(n.fields) <= scanned {
		return
	}
	n.byName = make(map[string]int, len(n.fields))
	for i, f := range n.fields {
		n.byName[f.name] = i
	}
}

// find returns the place of the field with exactly that name, or -1. Members mostly come in the order of the fields,
// so it looks at one place first.
func (n *node) find(name []byte, first int) int {
	if first < len(n.fields) && n.fields[first].name == string(name) {
		return first
	}
	if n.byName != nil {
		if i, ok := n.byName[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range n.fields {
		if n.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// folded returns the place of the field whose name is equal but for its case, or -1.
func (n *node) folded(name string) int {
	return slices.IndexFunc(n.fields, func(f field) bool { return !f.strict && strings.EqualFold(f.name, name) })
}

package jsonshape

import (
	"reflect"
	"slices"
)

// Members are what a type knows of documents. They find members that the type does not know, members that are there
// twice or in another case, and zeros that are written out although the type leaves them out (omitempty, omitzero).
// They are immutable.
//
// What a type knows is what is decoded into it. A type that decodes itself, an interface, and all that is below them,
// know everything. So do maps: each of their members is a key.
type Members struct{ root *memberNode }

// MemberOptions say how documents of a type are decoded.
type MemberOptions struct {
	// Ignored are members of the document itself that are not looked at, whatever is in them.
	Ignored []string
	// NotKept are names of members of the document ("") or of a member of it, of which a zero that is written out is
	// not kept.
	NotKept map[string][]string
}

// MembersOf returns what a type knows.
func MembersOf(t reflect.Type, opts MemberOptions) *Members {
	b := memberBuilder{nodes: map[reflect.Type]*memberNode{}}
	of := b.node(t)
	if of == nil || !of.structure {
		return &Members{of}
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
	return &Members{&root}
}

// notKeeping returns a copy that keeps no zeros of these fields.
func (n *memberNode) notKeeping(names []string) *memberNode {
	out := *n
	out.fields = slices.Clone(n.fields)
	for i := range out.fields {
		if slices.Contains(names, out.fields[i].name) {
			out.fields[i].zeros = 0
		}
	}
	return &out
}

// AnyMembers are for documents of which nothing is known: each member is, and none may be there twice.
func AnyMembers() *Members { return &Members{root: anyNode} }

// KnowsAll reports whether the type knows each member of each document, so that there is nothing to keep.
func (s *Members) KnowsAll() bool { return !s.root.forgets(map[*memberNode]bool{}) }

func (n *memberNode) forgets(seen map[*memberNode]bool) bool {
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

// memberNode is what a type knows of one JSON value. Nil means that there is nothing to look for in it.
type memberNode struct {
	structure bool // an object is a struct
	mapping   bool // an object is a map: its members are keys, and their values are each
	list      bool // an array has elements, which are each
	knowsAll  bool // a struct that keeps members without a field
	fields    []field
	byName    map[string]int // of the fields, where there are many
	each      *memberNode
}

// field is a member that a struct has a field for.
type field struct {
	name     string
	below    *memberNode
	nullable bool // null takes away what was decoded before
	mayOmit  bool // a value may be left out of a document although it was there
	strict   bool // other cases of the name are other names
	zeros    zeros
}

// anyNode is what an interface takes.
var anyNode = newAnyNode()

func newAnyNode() *memberNode {
	n := &memberNode{mapping: true, list: true}
	n.each = n
	return n
}

// scanned is up to how many fields are looked through one by one.
const scanned = 16

func (n *memberNode) index() {
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
func (n *memberNode) find(name []byte, first int) int {
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
func (n *memberNode) folded(name string) int {
	return slices.IndexFunc(n.fields, func(f field) bool { return folds(f.name, name, f.strict) })
}

// memberBuilder makes nodes, one for each type.
type memberBuilder struct {
	nodes map[reflect.Type]*memberNode
}

// node returns what is known of a type, and of pointers to it.
func (b *memberBuilder) node(t reflect.Type) *memberNode {
	if t = Pointed(t); t == nil {
		return nil
	}
	if n, ok := b.nodes[t]; ok {
		return n
	}
	n := &memberNode{}
	b.nodes[t] = n // before the types below it, which it may be one of
	if !b.fill(n, t) {
		b.nodes[t] = nil
	}
	return b.nodes[t]
}

// fill reports whether there is anything to look for in values of a type.
func (b *memberBuilder) fill(n *memberNode, t reflect.Type) bool {
	if DecodesItself(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct:
		shape := Of(t)
		n.structure, n.knowsAll = true, shape.Rest != nil
		for _, m := range shape.Members {
			n.fields = append(n.fields, b.field(m))
		}
		n.index()
		return true
	case reflect.Map:
		n.mapping = true
		n.each = b.node(t.Elem())
		return true
	case reflect.Slice, reflect.Array:
		n.list, n.each = true, b.node(t.Elem())
		return n.each != nil
	case reflect.Interface:
		*n = *anyNode
		return t.NumMethod() == 0
	}
	return false
}

func (b *memberBuilder) field(m Member) field {
	t := m.Field.Type
	f := field{
		name: m.Name, below: b.node(t), nullable: isNullable(t), mayOmit: m.OmitZero, strict: m.CaseStrict,
	}
	if !m.ByPointer() { // a zero that is kept would make what is embedded again after it was set to nil
		f.zeros = zerosOf(m)
	}
	return f
}

func isNullable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
}

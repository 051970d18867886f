package jsonshape

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// secretBuilder makes the nodes of types, one for each set of types that a value may be of. A value is of several where
// the packages of JSON do not agree which field its member is, or where an interface holds it.
type secretBuilder struct {
	nodes   map[string]*secretNode
	types   map[reflect.Type]int // their numbers, which sets are named by
	dynamic []reflect.Type       // that interfaces hold
	err     error
}

func newSecretBuilder(dynamic []reflect.Type) *secretBuilder {
	return &secretBuilder{nodes: map[string]*secretNode{}, types: map[reflect.Type]int{}, dynamic: dynamic}
}

// root returns the node of a document of a type; nil if it has no secrets.
func (b *secretBuilder) root(t reflect.Type) *secretNode {
	root := b.node(false, t)
	live := b.live()
	alive := func(n *secretNode) *secretNode {
		if !live[n] {
			return nil
		}
		return n
	}
	for _, n := range b.nodes {
		n.each, n.rest = alive(n.each), alive(n.rest)
		for name, member := range n.members {
			n.members[name] = alive(member)
		}
	}
	return alive(root)
}

// live returns the nodes with secrets. It makes maps secret whose keys have them: a key is text that a method makes.
func (b *secretBuilder) live() map[*secretNode]bool {
	live := map[*secretNode]bool{redacted: true}
	for before := 0; before < len(live); {
		before = len(live)
		for _, n := range b.nodes {
			n.secret = n.secret || live[n.keys]
			if n.secret || live[n.each] || live[n.rest] || live[n.hidden] || n.anyMember(live) {
				live[n] = true
			}
		}
	}
	return live
}

func (n *secretNode) anyMember(of map[*secretNode]bool) bool {
	for _, member := range n.members {
		if of[member] {
			return true
		}
	}
	return false
}

// node returns the node of a value of one of the types. opaque says that a method made the JSON around it.
func (b *secretBuilder) node(opaque bool, of ...reflect.Type) *secretNode {
	set := b.set(of)
	opaque = opaque || slices.ContainsFunc(set, EncodesItself)
	name := b.nameOf(set, opaque)
	if n, ok := b.nodes[name]; ok {
		return n
	}
	n := &secretNode{opaque: opaque, secret: slices.Contains(set, reflect.TypeFor[unseen]())}
	b.nodes[name] = n
	if slices.ContainsFunc(set, func(t reflect.Type) bool { return t.Kind() == reflect.Struct }) {
		n.members = map[string]*secretNode{}
	}
	var each, rest, keys, hidden parts
	n.takes = b.formsOf(set)
	for _, t := range set {
		switch t.Kind() {
		case reflect.Map:
			keys.add(t.Key(), false)
			fallthrough
		case reflect.Slice, reflect.Array:
			each.add(t.Elem(), false)
		}
	}
	fields := map[string]*parts{}
	for _, t := range set {
		if t.Kind() == reflect.Struct {
			b.checkTags(t)
			addFields(t, fields, &rest)
			addHidden(t, &hidden)
		}
	}
	for name, of := range fields {
		of.types = append(of.types, each.types...) // the value may also be a map, which has a key of that name
		n.members[name] = b.part(opaque, *of)
	}
	n.each, n.rest, n.keys = b.part(opaque, each), b.part(opaque, rest), b.part(opaque, keys)
	if opaque {
		n.hidden = b.part(opaque, hidden)
	}
	return n
}

// addFields adds what the fields of a struct are in JSON, by any package.
func addFields(t reflect.Type, named map[string]*parts, rest *parts) {
	for _, d := range dialects {
		for _, m := range d.shapeOf(t).fields() {
			switch of := m.Field.Type; {
			case m.hidden:
			case m.place != asRest:
				if named[m.Name] == nil {
					named[m.Name] = &parts{}
				}
				named[m.Name].add(of, m.secret)
			default:
				if of = PointedOr(of); of.Kind() == reflect.Map {
					of = of.Elem()
				}
				rest.add(of, m.secret)
			}
		}
	}
}

// addHidden adds the fields that are in no JSON, but that a method may write.
func addHidden(t reflect.Type, hidden *parts) {
	for _, m := range Of(t).Left {
		hidden.add(m.Field.Type, m.secret)
	}
}

func (b *secretBuilder) checkTags(t reflect.Type) {
	for _, m := range Of(t).fields() {
		for _, f := range append(slices.Clip(m.Through), m.Field) {
			tag, ok := f.Tag.Lookup(tagName)
			if ok && tag != marked && b.err == nil {
				b.err = fmt.Errorf("field %s of %v has the tag %s:%q: only %s:%q is known",
					f.Name, t, tagName, tag, tagName, marked)
			}
		}
	}
}

// parts are the fields that one member may be.
type parts struct {
	types  []reflect.Type
	secret bool // one of them is
}

func (p *parts) add(t reflect.Type, secret bool) {
	if p.secret = p.secret || secret; !slices.Contains(p.types, t) {
		p.types = append(p.types, t)
	}
}

// part returns the node of a member; nil for none.
func (b *secretBuilder) part(opaque bool, p parts) *secretNode {
	if len(p.types) == 0 {
		return nil
	}
	n := b.node(opaque, p.types...) // also to check the tags in it
	if p.secret {
		return redacted
	}
	return n
}

// redacted is a value that is secret as a whole.
var redacted = &secretNode{secret: true}

// set returns the types that values of some types may be of: what pointers lead to, and what interfaces hold.
func (b *secretBuilder) set(of []reflect.Type) []reflect.Type {
	set := map[reflect.Type]bool{}
	for _, t := range of {
		if t = PointedOr(t); t.Kind() == reflect.Interface {
			for _, held := range b.dynamic {
				set[PointedOr(held)] = true
			}
		}
		set[t] = true
	}
	inOrder := func(x, y reflect.Type) int { return cmp.Compare(b.number(x), b.number(y)) }
	return slices.SortedFunc(maps.Keys(set), inOrder)
}

func (b *secretBuilder) number(t reflect.Type) int {
	if _, ok := b.types[t]; !ok {
		b.types[t] = len(b.types)
	}
	return b.types[t]
}

func (b *secretBuilder) nameOf(set []reflect.Type, opaque bool) string {
	var name strings.Builder
	for _, t := range set {
		fmt.Fprintf(&name, "%d,", b.number(t))
	}
	fmt.Fprint(&name, opaque)
	return name.String()
}

// forms are the kinds of JSON that a value may be. Null is none of them: it tells nothing.
type forms uint8

const (
	objectForm forms = 1 << iota
	arrayForm
	scalarForm
	anyForm = objectForm | arrayForm | scalarForm
)

// formsOf returns the forms of a value that is of one of the types. Of a type that encodes itself any form is possible;
// if it may have secrets, another form than that of its fields may tell one.
func (b *secretBuilder) formsOf(set []reflect.Type) (forms forms) {
	explained := anyForm
	for _, t := range set {
		switch {
		case !EncodesItself(t):
			forms |= formsOf(t)
		case reaches(t, hasMarks),
			len(b.dynamic) > 0 && reaches(t, isInterface):
			forms |= formsOf(t)
			explained &= formsOf(t)
		default:
			forms = anyForm
		}
	}
	return forms & explained
}

// formsOf returns those of a type that is encoded by what it is made of.
func formsOf(t reflect.Type) forms {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return objectForm
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return arrayForm | scalarForm
		}
		return arrayForm
	case reflect.Interface:
		return anyForm
	}
	return scalarForm
}

// hasMarks reports whether a field of a type is marked, whether it is in its JSON or not.
func hasMarks(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(slices.Collect(t.Fields()), IsSecret)
}

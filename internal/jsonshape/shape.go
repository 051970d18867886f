// Package jsonshape says what a Go type is as JSON. Which field of a struct is which member is decided in one place
// (Of), by the rules of the packages of JSON: embedding, dominance, tags, and names that differ by case.
//
// All else that Nagi has to know of documents follows from it: what a type knows of a document, and what has to be kept
// of one that it does not (Members); what is secret in it (Secrets); and how whole numbers stay whole (Coder).
package jsonshape

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Shape is what a struct is as a JSON object.
type Shape struct {
	// Members are the fields that are members, each with another name; those of embedded structs after those of the
	// structs around them.
	Members []Member
	// Rest is the field that takes the members for which there is no other; nil for none.
	Rest *Member

	byName map[string]int // of Members
	none   []Member       // fields that others of the same name keep from being members
}

// Member is a field that is a member.
type Member struct {
	Name string
	// Field is the field; its Index leads to it from the struct of the shape.
	Field reflect.StructField
	// In is the struct that has the field: that of the shape, or one that is embedded in it.
	In reflect.Type
	// ByPointer says that a struct on the way to the field is embedded by a pointer, which may be nil.
	ByPointer bool
	// The options of the tag. CaseStrict says that names of another case are other names.
	OmitEmpty, OmitZero, Quoted, CaseStrict bool

	secret bool // it is marked, or is in what is marked
	tagged bool // the tag has its name
	rest   bool // it takes the rest, and has no name
}

// Of returns the shape of a struct in documents, which a Coder encodes and decodes.
func Of(t reflect.Type) *Shape { return documents.shapeOf(t) }

// OfStandard returns the shape of a struct by encoding/json, and by sigs.k8s.io/json, which is a copy of it.
func OfStandard(t reflect.Type) *Shape { return standard.shapeOf(t) }

// Lookup returns the member that a value with a name is decoded into: the one with that name, or else the first one
// whose name differs by case alone. Nil if there is none.
func (s *Shape) Lookup(name string) *Member {
	i, ok := s.byName[name]
	if !ok {
		i = slices.IndexFunc(s.Members, func(m Member) bool { return folds(m.Name, name, m.CaseStrict) })
	}
	if i < 0 {
		return nil
	}
	return &s.Members[i]
}

// folds reports whether a name that differs by case alone stands for the name of a member.
func folds(member, name string, caseStrict bool) bool {
	return !caseStrict && strings.EqualFold(member, name)
}

// written are the fields that may be in a document, those included of which it is in doubt.
func (s *Shape) written() []Member {
	written := slices.Concat(s.Members, s.none)
	if s.Rest != nil {
		written = append(written, *s.Rest)
	}
	return written
}

// shapes are the results of shapeOf, which are the same each time.
var shapes sync.Map // shapeKey → *Shape

type shapeKey struct {
	by *dialect
	t  reflect.Type
}

func (d *dialect) shapeOf(t reflect.Type) *Shape {
	key := shapeKey{d, t}
	if known, ok := shapes.Load(key); ok {
		return known.(*Shape)
	}
	s := newShape(d.fields(t))
	shapes.Store(key, s)
	return s
}

// fields returns the fields of a struct and of those embedded in it that have a place in its JSON, breadth first. One
// that is embedded twice at the same depth is there twice, so that its fields are ambiguous.
func (d *dialect) fields(t reflect.Type) (found []Member) {
	type level struct {
		Member
		t     reflect.Type
		again bool
	}
	seen := map[reflect.Type]bool{t: true}
	for queue := []level{{t: t}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for f := range at.t.Fields() {
			f.Index = slices.Concat(at.Field.Index, f.Index)
			m, place := d.member(f)
			m.In, m.ByPointer, m.secret = at.t, at.ByPointer, at.secret || IsSecret(f)
			switch m.rest = place == asRest; place {
			case asMember, asRest:
				found = append(found, m)
			case asEmbedded:
				inner := structOf(f.Type)
				if m.ByPointer = m.ByPointer || f.Type.Kind() == reflect.Pointer; !at.again {
					queue = append(queue, level{m, inner, seen[inner]})
				}
				seen[inner] = true
			}
		}
	}
	return found
}

// newShape lets one field count for each name: the one at the least depth, of several there the one with the name in
// its tag, and none if there are several still. For the rest, which has no name, the same holds.
func newShape(fields []Member) *Shape {
	first := map[string]Member{}
	count := map[string]int{}
	for _, m := range fields {
		switch order := cmp.Compare(m.rank(), first[m.Name].rank()); {
		case count[m.Name] == 0 || order < 0:
			first[m.Name], count[m.Name] = m, 1
		case order == 0:
			count[m.Name]++
		}
	}
	s := &Shape{byName: map[string]int{}}
	for _, m := range fields {
		switch {
		case m.rank() > first[m.Name].rank() && !m.rest: // another one hides it
		case m.rank() > first[m.Name].rank() || count[m.Name] > 1:
			s.none = append(s.none, m)
		case m.rest:
			s.Rest = &m
		default:
			s.byName[m.Name] = len(s.Members)
			s.Members = append(s.Members, m)
		}
	}
	return s
}

func (m Member) rank() int {
	if m.tagged {
		return 2 * len(m.Field.Index)
	}
	return 2*len(m.Field.Index) + 1
}

// Package jsonshape says what a Go type is as JSON. Which field of a struct is which member is decided in one place
// (Of), by the rules of the packages of JSON: embedding, dominance, tags, and names that differ by case.
//
// All else that Nagi has to know of documents follows from it: what a type knows of a document, and what has to be kept
// of one that it does not (Members); what is secret in it (Secrets); and how whole numbers stay whole (Coder).
package jsonshape

import (
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
	// Left are the fields that are no members: those that are not exported, that the tag leaves out, and that others
	// hide.
	Left []Member

	byName map[string]int // of Members
}

// Member is a field that is a member.
type Member struct {
	Name string
	// Field is the field; its Index leads to it from the struct of the shape.
	Field reflect.StructField
	// In is the struct that has the field: that of the shape, or one that is embedded in it.
	In reflect.Type
	// Through are the fields that are embedded, on the way to it.
	Through []reflect.StructField
	// The options of the tag. CaseStrict says that names of another case are other names.
	OmitEmpty, OmitZero, Quoted, CaseStrict bool

	place  place
	tagged bool // the tag has its name
	secret bool // it is marked, or is in what is marked
	hidden bool // it is in no document; of others that are no members it is in doubt
}

// ByPointer reports whether a struct on the way to the field is embedded by a pointer, which may be nil.
func (m Member) ByPointer() bool {
	return slices.ContainsFunc(m.Through, func(f reflect.StructField) bool { return f.Type.Kind() == reflect.Pointer })
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

// fields are all of the struct, and of those that are embedded in it.
func (s *Shape) fields() []Member {
	fields := slices.Concat(s.Members, s.Left)
	if s.Rest != nil {
		fields = append(fields, *s.Rest)
	}
	return fields
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

// fields returns the fields of a struct and of those embedded in it, breadth first. A struct that is embedded twice is
// there twice, so that its fields are tied, but not what is embedded in it.
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
			m := d.member(f)
			m.In, m.Through, m.secret = at.t, at.Through, at.secret || IsSecret(f)
			if m.place != asEmbedded {
				found = append(found, m)
				continue
			}
			inner := structOf(f.Type)
			if m.Through = append(slices.Clip(m.Through), f); !at.again {
				queue = append(queue, level{m, inner, seen[inner]})
			}
			seen[inner] = true
		}
	}
	return found
}

// newShape lets one field count for each name: the one at the least depth, of several there the one with the name in
// its tag, and none if there are several still. For the rest, which has no name, the same holds.
func newShape(fields []Member) *Shape {
	first := map[string]int{} // the least rank
	count := map[string]int{} // how many have it
	for _, m := range fields {
		switch rank, known := first[m.Name]; {
		case m.place == asNothing:
		case !known || m.rank() < rank:
			first[m.Name], count[m.Name] = m.rank(), 1
		case m.rank() == rank:
			count[m.Name]++
		}
	}
	s := &Shape{byName: map[string]int{}}
	for _, m := range fields {
		leads := m.place != asNothing && m.rank() == first[m.Name]
		switch {
		case !leads || count[m.Name] > 1:
			m.hidden = !leads && m.place != asRest
			s.Left = append(s.Left, m)
		case m.place == asRest:
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

package members

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// builder makes nodes, one for each type.
type builder struct {
	nodes map[reflect.Type]*node
}

var (
	unmarshaler     = reflect.TypeFor[stdjson.Unmarshaler]()
	unmarshalerFrom = reflect.TypeFor[json.UnmarshalerFrom]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decodesItself reports whether a type has a method that decodes it.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshaler) || p.Implements(unmarshalerFrom) || p.Implements(textUnmarshaler)
}

// node returns what is known of a type, and of pointers to it.
func (b *builder) node(t reflect.Type) *node {
	if t = Pointed(t); t == nil {
		return nil
	}
	if n, ok := b.nodes[t]; ok {
		return n
	}
	n := &node{}
	b.nodes[t] = n // before the types below it, which it may be one of
	if !b.fill(n, t) {
		b.nodes[t] = nil
	}
	return b.nodes[t]
}

// fill reports whether there is anything to look for in values of a type.
func (b *builder) fill(n *node, t reflect.Type) bool {
	if decodesItself(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct:
		n.structure = true
		n.fields, n.knowsAll = b.fields(t)
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
		*n = *anything
		return t.NumMethod() == 0
	}
	return false
}

func isNullable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
}

// candidate is a field that may have a name.
type candidate struct {
	field
	depth  int
	tagged bool
	order  int
}

// fields returns the members that the fields of a struct become, with those of embedded structs, by the rules of
// encoding/json: of several with the same name the one at the least depth counts, of those the one with a tag, and none
// if there are several still. knowsAll reports a field that takes the other members.
func (b *builder) fields(t reflect.Type) (fields []field, knowsAll bool) {
	type level struct {
		t     reflect.Type
		depth int
		again bool // its fields are there already: they are ambiguous
		byPtr bool // it is embedded by a pointer, which a zero that is kept would make again after it was set to nil
	}
	var found []candidate
	seen := map[reflect.Type]bool{t: true}
	for queue := []level{{t: t}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for i := range at.t.NumField() {
			f := at.t.Field(i)
			tag := tagOf(f)
			switch into, inlined := b.embedded(f, tag); {
			case f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous:
			case inlined && into.Kind() == reflect.Struct:
				if !at.again {
					byPtr := at.byPtr || f.Type.Kind() == reflect.Pointer
					queue = append(queue, level{into, at.depth + 1, seen[into], byPtr})
				}
				seen[into] = true
			case inlined:
				knowsAll = true
			case f.IsExported() || structOf(f.Type) != nil:
				zeros := zerosOf(f.Type, tag)
				if at.byPtr {
					zeros = 0
				}
				found = append(found, candidate{
					field: field{
						name: cmp.Or(tag.name, f.Name), below: b.node(f.Type), nullable: isNullable(f.Type),
						mayOmit: tag.omitZero, strict: tag.strict, zeros: zeros,
					},
					depth: at.depth, tagged: tag.name != "", order: len(found),
				})
			}
		}
	}
	return dominant(found), knowsAll
}

// embedded returns the type whose members become those of the outer struct.
func (b *builder) embedded(f reflect.StructField, tag tag) (into reflect.Type, inlined bool) {
	if tag.embed {
		if s := structOf(f.Type); s != nil {
			return s, true
		}
		return f.Type, true // a map, or raw JSON
	}
	if s := structOf(f.Type); f.Anonymous && tag.name == "" && s != nil {
		return s, true
	}
	return nil, false
}

// dominant picks one of the candidates for each name.
func dominant(found []candidate) (fields []field) {
	slices.SortStableFunc(found, func(x, y candidate) int {
		rank := 0
		if x.tagged != y.tagged {
			if rank = 1; x.tagged {
				rank = -1
			}
		}
		return cmp.Or(strings.Compare(x.name, y.name), cmp.Compare(x.depth, y.depth), rank)
	})
	var chosen []candidate
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].name == found[0].name {
			n++
		}
		if n == 1 || found[0].depth != found[1].depth || found[0].tagged != found[1].tagged {
			chosen = append(chosen, found[0])
		}
		found = found[n:]
	}
	slices.SortFunc(chosen, func(x, y candidate) int { return cmp.Compare(x.order, y.order) })
	for _, c := range chosen {
		fields = append(fields, c.field)
	}
	return fields
}

// structOf returns the struct that t is or points to; nil if it is another type.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// tag is what the tag of a field says.
type tag struct {
	name                    string
	embed, omitZero, strict bool
	omitEmpty, quoted       bool
}

func tagOf(f reflect.StructField) (t tag) {
	var options string
	t.name, options, _ = strings.Cut(f.Tag.Get("json"), ",")
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "embed":
			t.embed = true
		case "omitzero":
			t.omitZero = true
		case "omitempty":
			t.omitEmpty = true
		case "string":
			t.quoted = true
		case "case:strict":
			t.strict = true
		}
	}
	return t
}

package jsonshape

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Kept are the members of a document that are kept: those that a type does not know, and those that it knows and leaves
// out, because they are zero. Nil has none. It is shared and not changed once it was handed out, but by Settle.
type Kept struct {
	members []member
	below   []subpart
}

// member is a member as it was written.
type member struct {
	name          string // of the field, if it is known
	quoted, value []byte
	known         bool
}

// subpart are the unknown members in a known one.
type subpart struct {
	name    string
	part    *Kept
	mayOmit bool
	alone   bool // a document that T is encoded to does not have the known member
}

// Size is about how many bytes of memory they take.
func (p *Kept) Size() int {
	if p == nil {
		return 0
	}
	const each = 96
	size := each
	for _, m := range p.members {
		size += each + len(m.name) + len(m.quoted) + len(m.value)
	}
	for _, s := range p.below {
		size += each + len(s.name) + s.part.Size()
	}
	return size
}

// MustSettle reports whether it depends on what the type is encoded to what of the part is kept. Settle has to be told
// then.
func (p *Kept) MustSettle() bool {
	return p != nil && (slices.ContainsFunc(p.members, func(m member) bool { return m.known }) ||
		slices.ContainsFunc(p.below, func(s subpart) bool { return s.mayOmit || s.part.MustSettle() }))
}

// Settle is told what the type is encoded to, of the document that the part is of. A known member that is not there was
// zero and is left out: it is kept. An object that is not there was zero, too, so it was not removed when it is not
// there the next time. Settle returns what is kept; nil if nothing is.
func (p *Kept) Settle(encoded []byte) (*Kept, error) {
	err := p.settle(decoder(encoded))
	if err != nil || p.isEmpty() {
		return nil, err
	}
	return p, nil
}

func (p *Kept) isEmpty() bool { return len(p.members) == 0 && len(p.below) == 0 }

func (p *Kept) settle(d *jsontext.Decoder) error {
	has, found := map[string]bool{}, map[string]bool{}
	below := p.byName()
	err := objectMembers(d, func(name string, _ jsontext.Value) error {
		has[name] = true
		part := below[name]
		if part == nil || d.PeekKind() != '{' {
			return d.SkipValue()
		}
		found[name] = true
		return part.settle(d)
	})
	p.members = slices.DeleteFunc(p.members, func(m member) bool { return m.known && has[m.name] })
	for i := range p.below {
		s := &p.below[i]
		s.alone = s.mayOmit && !found[s.name]
	}
	p.below = slices.DeleteFunc(p.below, func(s subpart) bool { return s.part.isEmpty() })
	return err
}

func (p *Kept) byName() map[string]*Kept {
	below := make(map[string]*Kept, len(p.below))
	for _, s := range p.below {
		below[s.name] = s.part
	}
	return below
}

// objectMembers calls f for each member of the next value, which is an object. f reads the value.
func objectMembers(d *jsontext.Decoder, f func(name string, quoted jsontext.Value) error) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return err
		}
		quoted = quoted.Clone()
		unquoted, _ := jsontext.AppendUnquote(nil, quoted) // it was read, so it is a string
		if err := f(string(unquoted), quoted); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// MergeKept returns a document, which is a JSON object, with the members that are kept. What the document has, stays as
// it is. Members in an object that the document does not have are not kept, and neither are those of which the document
// has something else in their place.
func MergeKept(document []byte, kept *Kept) ([]byte, error) {
	if kept == nil {
		return document, nil
	}
	var out bytes.Buffer
	if err := kept.merge(decoder(document), &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (p *Kept) merge(d *jsontext.Decoder, out *bytes.Buffer) error {
	has := map[string]bool{}
	below := p.byName()
	out.WriteByte('{')
	first := out.Len()
	err := objectMembers(d, func(name string, quoted jsontext.Value) error {
		has[name] = true
		begin(out, first, quoted)
		if part := below[name]; part != nil && d.PeekKind() == '{' {
			return part.merge(d, out)
		}
		value, err := d.ReadValue()
		out.Write(value)
		return err
	})
	if err != nil {
		return err
	}
	p.rest(out, first, has, false)
	return nil
}

// rest writes what an object does not have, and its end. all says that there was no object.
func (p *Kept) rest(out *bytes.Buffer, first int, has map[string]bool, all bool) {
	for _, m := range p.members {
		if !has[m.name] {
			begin(out, first, m.quoted)
			out.Write(m.value)
		}
	}
	for _, s := range p.below {
		if has[s.name] || !s.alone && !all {
			continue
		}
		quoted, err := jsontext.AppendQuote(nil, s.name)
		if err != nil {
			continue // no field has such a name
		}
		begin(out, first, quoted)
		out.WriteByte('{')
		s.part.rest(out, out.Len(), nil, true)
	}
	out.WriteByte('}')
}

// begin writes the name of a member.
func begin(out *bytes.Buffer, first int, quoted []byte) {
	if out.Len() > first {
		out.WriteByte(',')
	}
	out.Write(quoted)
	out.WriteByte(':')
}

// Object is a JSON object of the members, and of the objects that they are in.
func (p *Kept) Object() []byte {
	var out bytes.Buffer
	if p == nil {
		p = &Kept{}
	}
	out.WriteByte('{')
	p.rest(&out, out.Len(), nil, true)
	return out.Bytes()
}

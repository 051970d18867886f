package jsonshape

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is what is odd about a member.
type Kind uint8

const (
	Unknown       Kind = iota // the type does not know it
	Miscased                  // it is known by another case of its name
	Duplicate                 // it is there more than once
	InvalidUTF8               // its name or value is no valid UTF-8
	HalfCharacter             // its name or value has the escape of one surrogate without the other one
)

// Problem is a member that is odd.
type Problem struct {
	Kind Kind
	// Path leads to the member. Elements of arrays are "[0]".
	Path []string
	// Meant is the name that was meant; "" if that is not known.
	Meant string
}

// MostProblems is how many problems are told of one document.
const MostProblems = 8

// Oddities are what Look found.
type Oddities struct {
	// Kept are the members that the type does not know, and those that may be zero and left out, but for those in
	// elements of arrays. Nil means none. See Kept.Settle.
	Kept *Kept
	// Problems are the first MostProblems; More is how many there are besides.
	Problems []Problem
	More     int
}

// Look finds what is odd in a document that decodes into the type. It is slow: see Clean.
func (s *Members) Look(document []byte) (Oddities, error) {
	l := &looker{d: decoder(document), document: document}
	kept, err := l.value(s.root, true, 0)
	l.Kept = kept
	return l.Oddities, err
}

func decoder(document []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(document),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

type looker struct {
	Oddities
	document []byte
	d        *jsontext.Decoder
	path     []string // of the value that is looked at
}

func (l *looker) tell(kind Kind, meant string) {
	if len(l.Problems) == MostProblems {
		l.More++
		return
	}
	l.Problems = append(l.Problems, Problem{Kind: kind, Path: slices.Clone(l.path), Meant: meant})
}

// text tells of text that becomes another one when it is written again.
func (l *looker) text(raw []byte) (odd bool) {
	kind, odd := textIn(raw)
	if odd {
		l.tell(kind, "")
	}
	return odd
}

// value looks at the next value. keep says that the unknown members in it are kept, and those zeros also where a field
// is not left out by itself: it is in one that may be.
func (l *looker) value(n *memberNode, keep bool, within zeros) (*Kept, error) {
	kind := l.d.PeekKind()
	switch {
	case n != nil && kind == '{' && (n.structure || n.mapping):
		return l.object(n, keep, within)
	case n != nil && kind == '[' && n.list:
		return nil, l.array(n)
	}
	raw, err := l.d.ReadValue()
	if err == nil {
		l.text(raw)
	}
	return nil, err
}

func (l *looker) array(n *memberNode) error {
	if _, err := l.d.ReadToken(); err != nil {
		return err
	}
	for i := 0; l.d.PeekKind() != ']'; i++ {
		l.path = append(l.path, "["+strconv.Itoa(i)+"]")
		if _, err := l.value(n.each, false, 0); err != nil {
			return err
		}
		l.path = l.path[:len(l.path)-1]
	}
	_, err := l.d.ReadToken()
	return err
}

// object looks at an object. Of several members with one name, what is unknown in the last one is kept.
func (l *looker) object(n *memberNode, keep bool, within zeros) (*Kept, error) {
	if _, err := l.d.ReadToken(); err != nil {
		return nil, err
	}
	o := &object{
		memberNode: n, keep: keep, within: within,
		count: map[string]int{}, members: map[string]member{}, below: map[string]subpart{},
	}
	for l.d.PeekKind() != '}' {
		quoted, err := l.d.ReadValue()
		if err != nil {
			return nil, err
		}
		quoted = quoted.Clone()
		unquoted, _ := jsontext.AppendUnquote(nil, quoted) // it was read, so it is a string
		l.path = append(l.path, string(unquoted))
		name := string(unquoted)
		if l.text(quoted) && o.isUnknown(name) {
			name = string(quoted) // two of them may look like one
		}
		if err := l.member(o, name, quoted); err != nil {
			return nil, err
		}
		l.path = l.path[:len(l.path)-1]
	}
	_, err := l.d.ReadToken()
	return o.part(), err
}

// object is one that is looked at.
type object struct {
	*memberNode
	keep    bool
	within  zeros
	count   map[string]int
	order   []string // of the names
	members map[string]member
	below   map[string]subpart
}

func (o *object) isUnknown(name string) bool {
	return o.structure && !o.knowsAll && o.find([]byte(name), 0) < 0 && o.folded(name) < 0
}

func (o *object) part() *Kept {
	p := &Kept{}
	for _, name := range o.order {
		if s, ok := o.below[name]; ok {
			p.below = append(p.below, s)
		} else if m, ok := o.members[name]; ok {
			p.members = append(p.members, m)
		}
	}
	if len(p.members) == 0 && len(p.below) == 0 {
		return nil
	}
	return p
}

// member looks at a member whose name was read.
func (l *looker) member(o *object, name string, quoted []byte) error {
	at := field{name: name, below: o.each}
	if o.structure {
		i := o.find([]byte(name), 0)
		if i < 0 {
			if i = o.folded(name); i >= 0 {
				l.tell(Miscased, o.fields[i].name)
			}
		}
		if i < 0 && !o.knowsAll {
			return l.unknown(o, name, quoted)
		}
		at.below = nil
		if i >= 0 {
			at = o.fields[i]
		}
	}
	l.again(o, at.name)
	isNull := l.d.PeekKind() == 'n'
	from, zero := l.zero(o, at)
	within := o.within
	if at.zeros&zeroDeep != 0 {
		within = at.zeros
	}
	below, err := l.value(at.below, o.keep, within)
	if delete(o.members, at.name); zero && below == nil && err == nil {
		o.members[at.name] = member{
			name: at.name, quoted: quoted, value: bytes.Clone(l.document[from:l.d.InputOffset()]), known: true,
		}
	}
	switch {
	case below != nil:
		o.below[at.name] = subpart{name: at.name, part: below, mayOmit: at.mayOmit}
	case !isNull || at.nullable || o.mapping: // which make the value anew
		delete(o.below, at.name)
	}
	return err
}

// zero reports whether the next value, that of a field, may be a zero to keep, and where it begins.
func (l *looker) zero(o *object, at field) (from int, zero bool) {
	s := scanner{data: l.document, pos: int(l.d.InputOffset())}
	if s.peek() == ':' {
		s.pos++
	}
	s.peek()
	return s.pos, o.keep && o.structure && s.mayBeZero(at.zeros|o.within)
}

func (l *looker) unknown(o *object, name string, quoted []byte) error {
	meant := ""
	if len(l.Problems) < MostProblems {
		meant = Nearest(name, o.names())
	}
	l.tell(Unknown, meant)
	l.again(o, name)
	value, err := l.d.ReadValue()
	if err == nil {
		l.text(value)
	}
	if o.keep {
		o.members[name] = member{name: name, quoted: quoted, value: bytes.Clone(value)}
	}
	return err
}

// again tells of a member that is there for the second time.
func (l *looker) again(o *object, name string) {
	switch o.count[name]++; o.count[name] {
	case 1:
		o.order = append(o.order, name)
	case 2:
		l.tell(Duplicate, "")
	}
}

func (n *memberNode) names() (names []string) {
	for _, f := range n.fields {
		names = append(names, f.name)
	}
	return names
}

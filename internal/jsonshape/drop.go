package jsonshape

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Drop returns the document without its secret members. The error holds nothing of the document.
func (f *Secrets) Drop(document []byte) ([]byte, error) {
	if f == nil || len(document) == 0 {
		return document, nil
	}
	for _, n := range []*secretNode{f.tagged, f.paths} {
		if n == nil {
			continue
		}
		d := decoder(document)
		var out bytes.Buffer
		if err := n.copyUnlessSecret(d, &out); err != nil {
			return nil, fmt.Errorf("leave out its secret fields: it is no valid JSON at byte %d", d.InputOffset())
		}
		document = out.Bytes()
	}
	return document, nil
}

// DropMember returns a document without a member.
func DropMember(document []byte, name string) ([]byte, error) {
	out := bytes.NewBufferString("{")
	d := decoder(document)
	err := objectMembers(d, func(is string, quoted jsontext.Value) error {
		value, err := d.ReadValue()
		if is != name {
			begin(out, 1, quoted)
			out.Write(value)
		}
		return err
	})
	out.WriteByte('}')
	return out.Bytes(), err
}

// copy copies the next value, without what is secret in it.
func (n *secretNode) copy(d *jsontext.Decoder, out *bytes.Buffer) error {
	kind := d.PeekKind()
	if n == nil || kind != '{' && kind != '[' {
		value, err := d.ReadValue()
		out.Write(value)
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	out.WriteByte(byte(kind))
	separate := func(first int) {
		if out.Len() > first {
			out.WriteByte(',')
		}
	}
	for first := out.Len(); d.PeekKind() != '}' && d.PeekKind() != ']'; {
		if kind == '[' {
			separate(first)
			if err := n.each.copyUnlessSecret(d, out); err != nil {
				return err
			}
			continue
		}
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		name = name.Clone()
		text, _ := jsontext.AppendUnquote(nil, name) // it was read, so it is a string
		member := n.member(string(text))
		if member.hides(d.PeekKind()) {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		separate(first)
		out.Write(name)
		out.WriteByte(':')
		if err := member.copy(d, out); err != nil {
			return err
		}
	}
	end, err := d.ReadToken()
	out.WriteString(end.String())
	return err
}

// copyUnlessSecret is copy for a value that keeps its place: the document, or an element of an array.
func (n *secretNode) copyUnlessSecret(d *jsontext.Decoder, out *bytes.Buffer) error {
	if n.hides(d.PeekKind()) {
		out.WriteString("null")
		return d.SkipValue()
	}
	return n.copy(d, out)
}

// hides reports whether a value of a kind is secret as a whole.
func (n *secretNode) hides(kind jsontext.Kind) bool {
	if n == nil || n.secret {
		return n != nil
	}
	switch kind {
	case '{':
		return n.takes&objectForm == 0
	case '[':
		return n.takes&arrayForm == 0
	case 'n', jsontext.KindInvalid:
		return false
	}
	return n.takes&scalarForm == 0
}

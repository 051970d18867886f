package kubewrites

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FieldValues returns a digest of a set of managed fields and of what an object has there. Two objects with one digest
// are equal as far as the manager has set them. What is empty counts as absent, for a Go type may leave it out; if
// a writer removes a field, the server takes it out of the set.
func FieldValues(set *fieldpath.Set, fields map[string]any) string {
	d := digest{sha256.New()}
	d.below(set, fields)
	return hex.EncodeToString(d.Sum(nil)[:16])
}

// HaveFields tells whether an object has the values of a configuration at a set of managed fields, and the
// configuration has all of them. In doubt the answer is no: whether what is in a struct that is empty in the
// configuration is the manager's only the server's schema knows.
func HaveFields(set *fieldpath.Set, fields, configured any) bool {
	have := true
	set.Members.Iterate(func(e fieldpath.PathElement) {
		if _, nested := set.Children.Get(e); nested || !have {
			return
		}
		want := find(configured, e)
		have = want != nil && canonical(find(fields, e)) == canonical(want)
	})
	set.Children.Iterate(func(e fieldpath.PathElement) {
		inner, _ := set.Children.Get(e)
		have = have && HaveFields(inner, find(fields, e), find(configured, e))
	})
	return have
}

type digest struct{ hash.Hash }

// below adds all elements of a set, in order, with what is there.
func (d digest) below(set *fieldpath.Set, at any) {
	set.Members.Iterate(func(e fieldpath.PathElement) {
		if _, nested := set.Children.Get(e); !nested {
			d.element('=', e)
			d.text(':', canonical(find(at, e)))
		}
	})
	set.Children.Iterate(func(e fieldpath.PathElement) {
		inner, _ := set.Children.Get(e)
		if d.element('{', e); set.Members.Has(e) {
			d.text('.', "")
		}
		d.below(inner, find(at, e))
		d.text('}', "")
	})
}

func (d digest) element(kind byte, e fieldpath.PathElement) {
	name, err := fieldpath.SerializePathElement(e)
	if err != nil {
		name = e.String()
	}
	d.text(kind, name)
}

// canonical is the same text for equal values.
func canonical(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // not JSON; it is equal to nothing
		return err.Error()
	}
	switch text := string(data); text {
	case `null`, `""`, `0`, `false`, `{}`, `[]`:
		return ""
	default:
		return text
	}
}

// text adds a text that cannot run into the next one: JSON and names of elements hold no zero byte.
func (d digest) text(kind byte, s string) {
	d.Write([]byte{kind})
	d.Write([]byte(s))
	d.Write([]byte{0})
}

// find returns what is at an element; nil if nothing is, or if more than one item of a list may be meant.
func find(at any, e fieldpath.PathElement) any {
	switch at := at.(type) {
	case map[string]any:
		if e.FieldName != nil {
			return at[*e.FieldName]
		}
	case []any:
		if e.Index != nil {
			if *e.Index < len(at) {
				return at[*e.Index]
			}
			return nil
		}
		var found any
		for _, item := range at {
			if selects(e, item) {
				if found != nil {
					return nil
				}
				found = item
			}
		}
		return found
	}
	return nil
}

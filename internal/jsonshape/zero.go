package jsonshape

import (
	"bytes"
	"reflect"
	"slices"
)

// zeros are the kinds of JSON values with which a member may say that a field is zero, and which are then left out when
// the field is encoded, because it has omitempty or omitzero.
type zeros uint8

const (
	zeroNull zeros = 1 << iota
	zeroBool
	zeroNumber
	zeroString
	zeroArray  // without elements
	zeroObject // without members
	zeroDeep   // arrays and objects may have elements and members that are zero, too

	zeroAny = zeroNull | zeroBool | zeroNumber | zeroString | zeroArray | zeroObject
)

// zerosOf returns how documents say that a field is zero and left out; 0 if it is never left out.
func zerosOf(m Member) zeros {
	t := m.Field.Type
	switch {
	case m.OmitZero:
		return zeroAny | zeroDeep
	case !m.OmitEmpty:
		return 0
	}
	var z zeros
	switch kind := t.Kind(); {
	case kind == reflect.Pointer, kind == reflect.Interface:
		return zeroNull
	case kind == reflect.Bool:
		z = zeroNull | zeroBool
	case kind >= reflect.Int && kind <= reflect.Float64:
		z = zeroNull | zeroNumber
	case kind == reflect.String:
		z = zeroNull | zeroString
	case kind == reflect.Slice:
		z = zeroNull | zeroArray | zeroString // one of bytes is a string
	case kind == reflect.Map:
		z = zeroNull | zeroObject
	default:
		return 0 // encoding/json leaves out neither structs nor arrays
	}
	if DecodesItself(t) {
		return zeroAny
	}
	if m.Quoted {
		z |= zeroString
	}
	return z
}

// mayBeZero reports whether the next value is one of these zeros. Of deep ones, it looks at what comes first in them.
// It may be wrong about a value that is none, but not about one that is. It stays where it is.
func (s *scanner) mayBeZero(z zeros) bool {
	if z == 0 {
		return false
	}
	at := *s
	switch c := at.peek(); c {
	case 'n':
		return z&zeroNull != 0
	case 'f':
		return z&zeroBool != 0
	case '"':
		return z&zeroString != 0 && isZeroText(at.data[at.pos+1:])
	case '-', '0':
		return z&zeroNumber != 0 && isZeroNumber(at.data[at.pos:])
	case '[', '{':
		if c == '[' && z&zeroArray == 0 || c == '{' && z&zeroObject == 0 {
			return false
		}
		at.pos++
		if next := at.peek(); next == ']' || next == '}' {
			return true
		}
		if z&zeroDeep == 0 {
			return false
		}
		if c == '{' {
			if !at.skipString() || at.peek() != ':' {
				return true
			}
			at.pos++
		}
		return at.mayBeZero(z)
	}
	return false
}

// zeroTexts are texts of zero values: of strings, of numbers and bools in strings, and of times and durations.
var zeroTexts = []string{"", "0", "0s", "false", "0001-01-01T00:00:00Z"}

// isZeroText is told what comes after a quotation mark.
func isZeroText(text []byte) bool {
	return slices.ContainsFunc(zeroTexts, func(zero string) bool {
		return len(text) > len(zero) && string(text[:len(zero)]) == zero && text[len(zero)] == '"'
	})
}

// isZeroNumber reports whether the number that text begins with is 0, as 0.0 and -0e7 are.
func isZeroNumber(text []byte) bool {
	end := bytes.IndexFunc(text, func(r rune) bool { return r != '-' && r != '.' && r != '0' })
	return end < 0 || text[end] < '1' || text[end] > '9'
}

package jsonshape

import (
	"bytes"
	"unicode/utf8"
)

// textIn looks for text in JSON that no Go string has as it is: decoding and encoding makes U+FFFD of it.
func textIn(raw []byte) (kind Kind, odd bool) {
	switch {
	case !utf8.Valid(raw):
		return InvalidUTF8, true
	case hasHalf(raw):
		return HalfCharacter, true
	}
	return 0, false
}

// hasHalf reports whether there is an escape of one surrogate without the other one, such as \ud800. The JSON is valid.
func hasHalf(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return false
		}
		switch raw = raw[i:]; surrogate(raw) {
		case 'h':
			if raw = raw[escapeLength:]; surrogate(raw) != 'l' {
				return true
			}
			raw = raw[escapeLength:]
		case 'l':
			return true
		default:
			raw = raw[2:]
		}
	}
}

// escapeLength is that of \ud800.
const escapeLength = 6

// surrogate returns 'h' if JSON begins with the escape of a high surrogate, 'l' for a low one, else 0.
func surrogate(raw []byte) byte {
	if len(raw) < escapeLength || raw[0] != '\\' || raw[1] != 'u' || raw[2]|0x20 != 'd' {
		return 0
	}
	switch raw[3] | 0x20 {
	case '8' | 0x20, '9' | 0x20, 'a', 'b':
		return 'h'
	case 'c', 'd', 'e', 'f':
		return 'l'
	}
	return 0
}

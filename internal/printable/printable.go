// Package printable makes text that others wrote safe to show: keys, owners, names of members, messages of servers.
//
// The rule: what others wrote never reaches a terminal, an event, a condition or an error as raw bytes, and
// never without a bound. Printable text stays as it is. Everything else (control characters, escape sequences, marks
// that change the direction of text, characters without a width, bytes that are no UTF-8) is shown as Go writes it in
// a string literal. Each function returns what it was given where there is nothing to change, so that calling it twice
// is the same as calling it once.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// How many bytes of a text are shown, with all that marks it as quoted and cut.
const (
	// TextLimit is for what names something: a key, an owner, a reason.
	TextLimit = 256
	// MessageLimit is for sentences, and for the values in a line of the log.
	MessageLimit = 1024
	// ErrorLimit is for errors: what others wrote is only a part of them.
	ErrorLimit = 4096
)

// Text returns what names something, quoted if it is not printable. A longer one ends with how many bytes it has.
func Text(s string) string {
	if len(s) <= TextLimit && printable(s) {
		return s
	}
	if printable(s) {
		return cut(s, TextLimit)
	}
	return quoted(s)
}

// Quote is Text that is always quoted, for sentences: Website "home" not found.
func Quote(s string) string { return quoted(s) }

// Message returns a sentence with all that is not printable as escape sequences.
func Message(s string) string { return bounded(s, MessageLimit) }

// printable reports whether each character of s is one that is seen as itself.
func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf {
			return printableRunes(s[i:])
		} else if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func printableRunes(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, width := utf8.DecodeRuneInString(s[i:]); width == 1 {
				return false
			}
		}
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// cut shortens printable text to at most limit bytes, its ending included.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	ending := size(len(s))
	end := limit - len(ending)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ending
}

func size(bytes int) string { return fmt.Sprintf("… (%d bytes)", bytes) }

func bounded(s string, limit int) string {
	if len(s) <= limit && printable(s) {
		return s
	}
	bytes := len(s)
	s = oneLine(s, limit)
	escaped, whole := escape(s, limit, false)
	if whole && len(escaped) <= limit {
		return escaped
	}
	ending := size(bytes)
	escaped, _ = escape(s, limit-len(ending), false)
	return escaped + ending
}

// oneLine makes one line of several, as errors.Join and stacks have them. What repeats the end of the line before, as
// an error does that is joined with its cause, is left out. Much more than the limit is not looked at.
func oneLine(s string, limit int) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasSuffix(b.String(), line) {
			continue
		}
		switch {
		case b.Len() == 0:
		case strings.HasSuffix(b.String(), ":"):
			b.WriteByte(' ')
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
		if b.Len() > limit {
			break
		}
	}
	return b.String()
}

func quoted(s string) string {
	const quotes = 2
	escaped, whole := escape(s, TextLimit-quotes, true)
	if whole {
		return `"` + escaped + `"`
	}
	ending := size(len(s))
	escaped, _ = escape(s, TextLimit-quotes-len(ending), true)
	return `"` + escaped + `"` + ending
}

// escape writes as much of s as fits limit; whole says whether that is all of it. It looks at no more of s than that.
func escape(s string, limit int, inQuotes bool) (escaped string, whole bool) {
	var b strings.Builder
	var one [12]byte
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		next := one[:0]
		switch {
		case r == utf8.RuneError && width == 1:
			const digits = "0123456789abcdef"
			next = append(next, '\\', 'x', digits[s[i]>>4], digits[s[i]&15])
		case inQuotes && (r == '"' || r == '\\'):
			next = append(next, '\\', byte(r))
		case strconv.IsPrint(r):
			next = append(next, s[i:i+width]...)
		default:
			quoted := strconv.AppendQuoteRune(one[:0], r)
			next = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(next) > limit {
			return b.String(), false
		}
		b.Write(next)
		i += width
	}
	return b.String(), true
}

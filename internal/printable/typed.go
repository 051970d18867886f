package printable

import "strings"

// Typed is text of others as it stands in a command that a person is to copy. What is more than a word to a shell is
// left to fill in: instead stands for it.
func Typed(text, instead string) string {
	word := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("-_=./", c)
	}
	if text == "" || text[0] == '-' || strings.ContainsFunc(text, func(c rune) bool { return !word(c) }) {
		return instead
	}
	return text
}

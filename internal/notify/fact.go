package notify

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"time"
)

// Fact is what was told of one thing. The zero Fact says that nothing was. It is small: of the reason it keeps a hash.
type Fact struct {
	reason uint64
	at     time.Time
}

// changePause is how long what was told last rests before another way of failing is told.
const changePause = time.Second

// Tell reports whether it is news that it is so, and why: the first time, and when the reason is another one.
func (f *Fact) Tell(reason string) (news bool) {
	kind := maphash.String(seed, reason)
	if kind == f.reason && !f.at.IsZero() {
		return false
	}
	f.reason, f.at = kind, time.Now()
	return true
}

// Remind is Tell for what is told again after a while.
func (f *Fact) Remind(reason string, after time.Duration) (news bool) {
	if time.Since(f.at) > after {
		*f = Fact{}
	}
	return f.Tell(reason)
}

// Repeat is Tell for what fails again and again: it is also news each time that the attempts, which count from 1, have
// doubled. Another reason is news at most once a second, and not one that differs in its numbers alone.
func (f *Fact) Repeat(attempt int, reason string) (news bool) {
	if Doubled(attempt) {
		*f = Fact{}
	} else if time.Since(f.at) < changePause {
		return false
	}
	return f.Tell(ButNumbers(reason))
}

// Over notes that it is so no more. That is news if it was told that it was.
func (f *Fact) Over() (news bool) {
	news = !f.at.IsZero()
	*f = Fact{}
	return news
}

// Doubled reports whether attempts have doubled since they were told last: at 1, 2, 4, 8 and so on.
func Doubled(attempts int) bool { return bits.OnesCount(uint(attempts)) == 1 }

var seed = maphash.MakeSeed()

// ButExamples makes one reason of those that differ in what they quote, as the key that is named for many, or in their
// numbers.
func ButExamples(text string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted:
			b.WriteByte(c)
		}
	}
	return ButNumbers(b.String())
}

// ButNumbers makes one reason of those that differ in their numbers alone, as in a revision, a port or a duration.
func ButNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

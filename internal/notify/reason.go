// Package notify says what is news: a fact is told once, again when its reason changes, and when it ends.
//
// It remembers and compares; whoever asks it logs, records the event, or calls back. A [Fact] is of one thing, and says
// too which repeats are news; [Facts] are of a few things. [Found] is what one look after another finds of many.
// [Pauses] say when something that comes and goes is told again. A [Tally] makes one line of what comes in numbers.
// [Reports] alone logs: what is wrong with keys that others wrote, in so many lines a second. What is degraded now is
// on the board of package health, which compares reasons by [Reason], as the rest does.
package notify

import "errors"

// Because returns err for a reason that other errors have too, whatever their texts say beside it: which request found
// that the server does not answer is no news. It is nil for nil.
func Because(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &because{reason, err}
}

// reasoned is an error with a reason of its own. An error of a public type has the method itself: as a part of another
// error it would not be of its type any more.
type reasoned interface{ Because() string }

var _ reasoned = (*because)(nil)

type because struct {
	reason string
	err    error
}

// Because is the reason.
func (b *because) Because() string { return b.reason }

// Error is that of the error.
func (b *because) Error() string { return b.err.Error() }

// Unwrap returns the error.
func (b *because) Unwrap() error { return b.err }

// Reason is that of Because, or else the text of the error; "" for nil. An error that joins several has each in its
// text, so they are not looked through.
func Reason(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if r, ok := e.(reasoned); ok {
			return r.Because()
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// Package notify says what is news: a fact is told once, again when its reason changes, and when it ends.
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

type because struct {
	reason string
	err    error
}

// Error is that of the error.
func (b *because) Error() string { return b.err.Error() }

// Unwrap returns the error.
func (b *because) Unwrap() error { return b.err }

// Reason is that of Because, or else the text of the error; "" for nil. An error that joins several has each in its
// text, so they are not looked through.
func Reason(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if b, ok := e.(*because); ok {
			return b.reason
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

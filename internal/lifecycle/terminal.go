package lifecycle

import "errors"

type terminalError struct{ err error }

func (e *terminalError) Error() string { return "terminal error: " + e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// TerminalError marks an error that no retry can mend; nil for nil.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

// IsTerminal reports whether TerminalError has marked err.
func IsTerminal(err error) bool {
	_, is := errors.AsType[*terminalError](err)
	return is
}

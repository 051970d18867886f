package lifecycle

import (
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

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

type retryAfterError struct {
	error
	after time.Duration
}

func (e *retryAfterError) Unwrap() error { return e.error }

// RetryAfter is an error whose key is due again after a time of its own; nil for nil.
func RetryAfter(err error, after time.Duration) error {
	if err == nil || after <= 0 {
		return err
	}
	return &retryAfterError{err, after}
}

// RetriedAfter is that time; 0 if the error says none.
func RetriedAfter(err error) time.Duration {
	if e, says := errors.AsType[*retryAfterError](err); says {
		return e.after
	}
	return 0
}

// StaysParked is what a hand-out of a parked key comes to; nil if it is not parked, or is woken now. v is the primary
// as it is.
func StaysParked(keys *keytable.Table, it queue.Item, v source.View) *Outcome {
	switch stays, again := keys.StaysParked(it.Key, v, it.Ops); {
	case !stays:
		return nil
	case again > 0:
		return &Outcome{Verdict: LookAgain, Ops: it.Ops, Prio: it.Prio, After: again}
	}
	return &Outcome{}
}

// TooLate is a terminal error that came after the term had ended, because of cause. It is not terminal: it says nothing
// about the primary, and no record would say that the key is parked. To errors.Is and errors.As it is else what it was.
func TooLate(err, cause error) error {
	return fmt.Errorf("%w, after the term had ended: %w", notTerminal{err}, cause)
}

// notTerminal hides that an error is terminal.
type notTerminal struct{ err error }

func (e notTerminal) Error() string        { return e.err.Error() }
func (e notTerminal) Is(target error) bool { return errors.Is(e.err, target) }

func (e notTerminal) As(target any) bool {
	_, terminal := target.(**terminalError)
	return !terminal && errors.As(e.err, target)
}

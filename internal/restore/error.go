package restore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// Mismatch says that nothing was restored, because the request names something else than what there is.
type Mismatch struct {
	// Restorable is how many documents could be restored.
	Restorable int

	says string
}

func (e *Mismatch) Error() string { return e.says }

// NotLeading says that this replica does not lead. Holder is who held the lease when it was read last; "" if it is not
// known.
type NotLeading struct{ Holder, says string }

func (e *NotLeading) Error() string { return e.says }

// Failure is a document that was not put back.
type Failure struct {
	Key string
	Err error
}

// Error says which documents were not put back, and why. errors.Is and errors.As find what is in the reasons.
type Error struct {
	Controller, Kind string
	Restored         int
	Failed           []Failure // in the order of keys; those that were not begun come last
}

// mostTold is how many keys the text of an error names.
const mostTold = 10

func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "controller %q: %d documents of %s were restored, and %d were not",
		e.Controller, e.Restored, e.Kind, len(e.Failed))
	if n := e.notTried(); n > 0 {
		fmt.Fprintf(&text, " (%d of them were not tried any more)", n)
	}
	text.WriteString(": ")
	for i, f := range e.Failed {
		if i == mostTold {
			fmt.Fprintf(&text, "; and %d more", len(e.Failed)-i)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(printable.Quote(f.Key) + ": " + printable.Message(f.Err.Error()))
	}
	text.WriteString(". List what is left, and restore that with its count")
	return text.String()
}

// Overtaken reports whether all that was not put back needs it no more: it has a document by now, or is not held. So it
// is after another restore at the same time.
func (e *Error) Overtaken() bool {
	for _, f := range e.Failed {
		if !errors.Is(f.Err, errCameBack) && !errors.Is(f.Err, errNotHeld) {
			return false
		}
	}
	return true
}

func (e *Error) notTried() (n int) {
	for _, f := range e.Failed {
		if errors.Is(f.Err, errStopped) {
			n++
		}
	}
	return n
}

// Unwrap returns the reasons.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, f := range e.Failed {
		errs = append(errs, f.Err)
	}
	return errs
}

// failures are the keys with an error.
func failures(list []Vanished, errs []error) (failed []Failure) {
	for _, notBegun := range []bool{false, true} {
		for i, err := range errs {
			if err != nil && errors.Is(err, errStopped) == notBegun {
				failed = append(failed, Failure{list[i].Key, err})
			}
		}
	}
	return failed
}

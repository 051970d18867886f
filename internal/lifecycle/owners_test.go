package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/printable"
)

type theirs struct{ owner string }

func (e *theirs) Error() string { return "is owned by " + e.owner }
func (e *theirs) AwaitsName()   {}

// TestWithoutOwnersTellsNoOwner, whatever the error is wrapped in, and leaves the rest.
func TestWithoutOwnersTellsNoOwner(t *testing.T) {
	name := &theirs{"SECRET"}
	for what, c := range map[string]struct {
		err   error
		names bool
		keeps string
	}{
		"another error":   {errors.New("no rights"), false, "no rights"},
		"alone":           {name, true, ""},
		"wrapped":         {fmt.Errorf("write Page: %w", name), true, "write Page"},
		"terminal":        {TerminalError(fmt.Errorf("write Page: %w", name)), true, "write Page"},
		"joined":          {errors.Join(errors.New("no rights"), name, &theirs{"ANOTHER SECRET"}), true, "no rights"},
		"the same twice":  {errors.Join(name, fmt.Errorf("write: %w", name)), true, ""},
		"too long to see": {fmt.Errorf("%s: %w", strings.Repeat("x", printable.MessageLimit-20), name), true, ""},
		"in other words":  {&hides{name}, true, ""},
		"not printable":   {fmt.Errorf("write: %w", &theirs{"\x1b[31mSECRET"}), true, "write"},
	} {
		text, names := WithoutOwners(printable.Message(c.err.Error()), c.err)
		if names != c.names || strings.Contains(text, "SECRET") || !strings.Contains(text, c.keeps) {
			t.Errorf("%s: %q, about a name: %v", what, text, names)
		}
	}
}

// hides says what it wraps in its own words.
type hides struct{ err *theirs }

func (e *hides) Error() string { return "it is SECRET who has it" }
func (e *hides) Unwrap() error { return e.err }

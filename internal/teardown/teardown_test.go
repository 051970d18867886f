package teardown

import (
	"errors"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/apisource"
)

// TestATerminalErrorDoesNotParkATeardownThatWaitsForAnOperation: who settles the operation need not wake the key, too.
func TestATerminalErrorDoesNotParkATeardownThatWaitsForAnOperation(t *testing.T) {
	open, terminal := apisource.LeftOpen{Err: errors.New("an operation goes on")}, errors.New("terminal")
	err := withLeftOpen(&open, terminal)
	if errors.Is(err, terminal) || !errors.Is(err, open.Err) || !strings.Contains(err.Error(), terminal.Error()) {
		t.Errorf("got %v", err)
	}
	if !errors.Is(withLeftOpen(&open, ErrDocumentReturned), ErrDocumentReturned) {
		t.Error("that the document is back is hidden")
	}
	if none := (&apisource.LeftOpen{}); !errors.Is(withLeftOpen(none, terminal), terminal) {
		t.Error("a terminal error is none any more")
	}
}

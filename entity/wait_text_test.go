package entity

import (
	"strings"
	"testing"
)

// TestTheErrorOfWhatFailedForGoodSaysWhatWakesIt.
func TestTheErrorOfWhatFailedForGoodSaysWhatWakesIt(t *testing.T) {
	err := &NotReconciledError{Kind: "Site", Key: "home", Revision: 7, Reason: ReasonTerminal, Message: "no theme"}
	for _, want := range []string{`Site "home" at revision 7`, "no theme", "change the document", "owns or watches",
		"by hand"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

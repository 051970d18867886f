package lifecycle

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/source"
)

// The rule for a source that shows an older state than its server has, or that is optional and has not synced:
//
// Nothing in it is deleted, and a teardown that would delete there does not end, until the source has been listed again
// or is seen to agree with its server. For what the source shows may be gone, or another's by now; and what it does not
// show would be left behind, with no record that says so. The sweep lets none of its objects go, and what the brake
// holds of them it goes on holding. Everything else goes on: other sources, and reconciles.
//
// It is applied here: CleanUp, which is before each delete by the runtime, asks outdatedSources, toDelete
// leaves those out of what the cache and the server list, and Sweep asks outdated.

// errCame is why nothing is deleted in a source that has come late.
var errCame = errors.New("it has just come, and the brake is about to be told")

// outdated says why what a source shows must not be acted on for deletes; nil if it may.
func (t *Teardown) outdated(s source.Owned) error {
	err := s.Outdated()
	if err == nil && t.Late(s) {
		err = errCame
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// outdatedSources are the sources in which a teardown must wait, and why.
func (t *Teardown) outdatedSources() (waiting []source.Owned, why error) {
	for _, s := range t.deletable() {
		if err := t.outdated(s); err != nil {
			waiting, why = append(waiting, s), err
		}
	}
	return waiting, why
}

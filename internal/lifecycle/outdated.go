package lifecycle

import (
	"github.com/nagi-runtime/nagi/internal/source"
)

// The rule for a source that shows an older state than its server has, or that is optional and has not synced:
//
// Nothing in it is deleted, and a teardown that would delete there does not end, until the source has been listed again
// or is seen to agree with its server. For what the source shows may be gone, or another's by now; and what it does not
// show would be left behind, with no record that says so. The sweep lets none of its objects go, and what the brake
// holds of them it goes on holding. Everything else goes on: other sources, and reconciles.
//
// The guard holds to it before each delete. Beside that CleanUp asks outdatedSources, toDelete leaves those out of what
// the cache and the server list, and Sweep and prune ask the guard which sources are outdated.

// outdatedSources are the sources in which a teardown must wait, and why.
func (t *Teardown) outdatedSources() (waiting []source.Owned, why error) {
	for _, s := range t.deletable() {
		if err := t.Guard.Outdated(s); err != nil {
			waiting, why = append(waiting, s), err
		}
	}
	return waiting, why
}

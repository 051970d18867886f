package brake

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
)

// mostNamed is how many of what is held an advice names.
const mostNamed = 3

// problem says why the brake holds deletes, and what to do: what keeps things first, what deletes them last. It is nil
// if the brake holds none. It needs b.mu.
func (b *Brake) problem() error {
	state := b.published()
	if !state.Engaged {
		return nil
	}
	return &health.Problem{Since: state.Since, Err: fmt.Errorf(
		"nothing is deleted that nobody was seen to delete: %s. First %s. Then %s",
		state.Reason, b.restoreAdvice(state), b.releaseAdvice(state))}
}

// restoreAdvice says how documents are put back that should not be missing.
func (b *Brake) restoreAdvice(state State) string {
	how := "call RestoreVanished of the controller, or put them again"
	if b.Restore != nil {
		how = b.Restore(state.Engagement, state.Held)
	}
	return "put back what is missing and should not be, which deletes nothing: " + how
}

// releaseAdvice says how what is held is let go, and what that deletes.
func (b *Brake) releaseAdvice(state State) string {
	return fmt.Sprintf("let the rest go, which deletes for good what %d vanished primaries and %d missing owners own, "+
		"and what %d primaries want no more%s: ReleaseBrake, or %s",
		state.Held, state.Swept, state.Pruned, b.examples(), state.command(b.Bucket.Name()))
}

// examples names some of what is held. A set may be large, so it is not sorted.
func (b *Brake) examples() string {
	var names []string
	for _, of := range []sets.Set[string]{b.held, b.heldOwners, b.prunes.held} {
		for key := range of {
			if len(names) < mostNamed {
				names = append(names, fmt.Sprintf("%q", key))
			} else {
				break
			}
		}
	}
	if names == nil {
		return ""
	}
	return ", such as of " + strings.Join(names, ", ")
}

// command is what an operator types to release all that is held.
func (s State) command(bucket string) string {
	return fmt.Sprintf("nats kv put %s %s %q", bucket, record.KeyRelease, fmt.Sprintf("%s %d", s.Engagement, s.Count()))
}

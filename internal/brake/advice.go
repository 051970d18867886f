package brake

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
)

// mostNamed is how many of what is held an advice names.
const mostNamed = 3

// problem says why the brake holds deletes, and what to do. It is nil if the brake holds none. It needs b.mu.
func (b *Brake) problem() error {
	state := b.published()
	if !state.Engaged {
		return nil
	}
	return &health.Problem{Since: state.Since, Err: fmt.Errorf(
		"nothing is deleted that nobody was seen to delete: %s. %s", state.Reason, b.advice(state))}
}

// advice says what to do: what keeps things first, what deletes them last. It needs b.mu.
func (b *Brake) advice(state State) string {
	return fmt.Sprintf("First %s. Last %s", b.keepAdvice(state), b.releaseAdvice(state))
}

// keepAdvice says how what is held is kept.
func (b *Brake) keepAdvice(state State) string {
	var how []string
	if state.Held > 0 {
		restore := "call RestoreVanished of the controller"
		if b.Restore != nil {
			restore = b.Restore(state.Engagement)
		}
		how = append(how, "put back what is missing and should not be, which deletes nothing: "+restore)
	}
	if state.Swept > 0 {
		how = append(how, "put the documents of missing owners again")
	}
	if state.Pruned > 0 {
		how = append(how, "run a version of the controller that wants what it owned")
	}
	if how == nil {
		return "put the documents again that are missing and should not be"
	}
	return strings.Join(how, "; ")
}

// releaseAdvice says how what is held is let go, and what that deletes.
func (b *Brake) releaseAdvice(state State) string {
	return fmt.Sprintf("let the rest go, which deletes for good what %s%s: ReleaseBrake, or %s",
		state.whose(), b.examples(), state.command(b.Bucket.Name()))
}

// whose says whose objects a release deletes, and how many each way.
func (s State) whose() string {
	var whose []string
	for _, of := range []struct {
		count     int
		one, many string
	}{
		{s.Held, "vanished primary owns", "vanished primaries own"},
		{s.Swept, "missing owner left", "missing owners left"},
		{s.Pruned, "primary owns and wants no more", "primaries own and want no more"},
	} {
		switch of.count {
		case 0:
		case 1:
			whose = append(whose, "1 "+of.one)
		default:
			whose = append(whose, fmt.Sprintf("%d %s", of.count, of.many))
		}
	}
	if whose == nil {
		return "is held by then"
	}
	return strings.Join(whose, ", and what ")
}

// examples names some of what is held. A set may be large, so it is not sorted.
func (b *Brake) examples() string {
	var names []string
	for _, of := range []sets.Set[string]{b.held, b.heldOwners, b.prunes.held} {
		for key := range of {
			if len(names) < mostNamed {
				names = append(names, printable.Quote(key))
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

package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// AddedSource is a source that [Controller.AddSource] has added.
type AddedSource struct{ added *engine.Added }

// AddSource adds a source, also while the controller runs: source is Owns, Watches, OwnsKube, OwnsExternal or another
// option of New that describes one. So clusters, accounts of NATS and APIs may come and go: of each one gives the
// informer, or the client, and keeps what AddSource returns to take it away again.
//
// Before Run the source is as one that was given to New: Run waits until it has synced. While the controller runs
// AddSource returns once the source is started, and [AddedSource.WaitSynced] waits. Until it has synced it is as one
// with [WithOptional]: the rest goes on, nothing is deleted because of what it does not show yet, and teardowns that
// have to look there wait. Then all primaries are reconciled once more. Stats().Degraded names it if it does not sync.
//
// What New would refuse AddSource refuses, such as a client that is a source already, and nothing has changed then.
// While Run waits for its first sync AddSource waits, too, until ctx ends; so a mapper or a predicate must not call it
// then. After the end of Run it fails. ctx is for the call only.
//
// A replica has the sources that it was given: have each replica add and remove the same ones. The entry in the
// registry of kinds follows within its interval.
func (c *Controller[T]) AddSource(ctx context.Context, source Option) (*AddedSource, error) {
	added, err := c.engine.AddSource(ctx, source)
	if err != nil {
		return nil, err
	}
	return &AddedSource{added}, nil
}

// String is the name of the source in logs, errors and Stats.
func (s *AddedSource) String() string { return s.added.String() }

// WaitSynced waits until the source has synced. It fails if ctx ends, the source is removed, or the controller stops
// before.
func (s *AddedSource) WaitSynced(ctx context.Context) error { return s.added.WaitSynced(ctx) }

// Remove takes the source away: no more of its events come, its cache stops unless something else uses it, and nothing
// of it is left. It returns when no callback of it runs any more; if ctx ends before, the error says so, and the
// removal goes on. What is removed already, or has ended with the controller, is no error.
//
// The controller is then as one that was made without the source. What primaries own there stays: it is neither pruned
// nor swept, and a teardown does not look there. What external.Reconcile began there, and did not see done, holds up
// the teardown of its primary, which says what to do. To have it deleted, delete the primaries, or what they own,
// first. When the source is added again, what has lost its primary meanwhile is found by the sweep, under the brake.
//
// A callback of the source, such as its mapper, must not call it: it would wait for itself.
func (s *AddedSource) Remove(ctx context.Context) error { return s.added.Remove(ctx) }

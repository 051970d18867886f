package brake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// State tells whether the brake holds deletes back, and why. It is kept as JSON, so that it survives restarts.
type State struct {
	Engaged bool      `json:"engaged"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries wait for a release, Swept how many owners of orphaned secondaries.
	Held  int `json:"held,omitempty"`
	Swept int `json:"swept,omitempty"`
	// Pruned is how many primaries own something that they do not want any more, and that waits for a release.
	Pruned int `json:"pruned,omitempty"`
	// Released stays until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// Err says why the brake of a status bucket holds deletes, and what to do; nil if it does not.
func (s State) Err(bucket string) error {
	if !s.Engaged {
		return nil
	}
	return &health.Problem{Since: s.Since, Err: fmt.Errorf("nothing is deleted that nobody was seen to delete: %s. "+
		"Put back what is missing and should not be, then release the rest: ReleaseBrake, or nats kv put %s %s now",
		s.Reason, bucket, record.KeyRelease)}
}

// State returns what the brake is now.
func (b *Brake) State() State {
	b.mu.Lock()
	defer b.unlock()
	return b.stateNow()
}

func (b *Brake) stateNow() State {
	state := b.state
	state.Held, state.Swept, state.Pruned = len(b.held), len(b.heldOwners), len(b.prunes.held)
	return state
}

// kept is what the status bucket has of the brake.
type kept struct {
	State
	// Keys are those that a release let go. So a crash does not ask for another release, and nothing that vanishes
	// later passes under an old one. Too many are not kept: after a crash they have to be released again.
	Keys []string `json:"releasedKeys,omitempty"`
}

// longestKept bounds the keys that are kept, in bytes.
const longestKept = 256 << 10

// fewKeys returns the keys if they are few enough to be kept.
func fewKeys(keys sets.Set[string]) []string {
	size := 0
	for key := range keys {
		size += len(key) + len(`"",`)
	}
	if size > longestKept {
		return nil
	}
	return slices.Sorted(maps.Keys(keys))
}

// loadState returns what an earlier term left. What cannot be read counts as engaged, because it may have been.
func (b *Brake) loadState(ctx context.Context) (kept, error) {
	left, _, err := b.stateCell.Load(ctx)
	if errors.Is(err, record.ErrUnreadable) {
		return kept{State: State{Engaged: true, Since: time.Now(), Reason: err.Error()}}, nil
	}
	return left, err
}

// keepState writes what the brake is now, which may be newer than what its caller made of it.
func (b *Brake) keepState(ctx context.Context) error {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	b.mu.Lock()
	now := kept{State: b.stateNow()}
	if now.Released {
		now.Keys = fewKeys(b.allowed)
	}
	b.unlock()
	if !now.Engaged && !now.Released {
		return b.stateCell.Delete(ctx)
	}
	return b.stateCell.Store(ctx, now)
}

// engage engages the brake if there is a reason. It needs b.mu; announce comes after it, without.
func (b *Brake) engage(reason string) bool {
	if reason == "" {
		return false
	}
	b.state = State{Engaged: true, Since: time.Now(), Reason: reason}
	return true
}

// stateIf returns the state of this moment if it is news, else nil. It needs b.mu: until it is announced the brake may
// have been released.
func (b *Brake) stateIf(news bool) *State {
	if !news {
		return nil
	}
	state := b.stateNow()
	return &state
}

// onBoard is the brake's name on the board.
const onBoard = "brake"

// report shows what the brake is now: it may be told of an older state late.
func (b *Brake) report(ctx context.Context) {
	b.Board.Change(ctx, onBoard, func() error { return b.State().Err(b.Bucket.Name()) })
}

// tell tells of a change of the state.
func (b *Brake) tell(ctx context.Context, state State, message string) {
	b.report(ctx)
	b.Tell(ctx, state, message)
}

// announce says loudly that the brake engaged, as it was then, and keeps that across restarts.
func (b *Brake) announce(ctx context.Context, state State) {
	logger := klog.FromContext(ctx)
	logger.Error(nil, "BRAKE ENGAGED: nothing inferred is deleted until it is released",
		"reason", state.Reason, "held", state.Held, "swept", state.Swept, "bucket", b.Bucket.Name(),
		"release", "ReleaseBrake, or put anything to "+record.KeyRelease+" in the status bucket")
	b.tell(ctx, state, state.Reason)
	if err := b.keepState(ctx); err != nil {
		logger.Error(err, "Cannot keep the state of the brake; it is decided anew after a restart")
	}
}

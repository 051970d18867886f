package brake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nats-io/nuid"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// State tells whether the brake holds deletes back, and why. It is kept as JSON, so that it survives restarts.
type State struct {
	Engaged bool `json:"engaged"`
	// Engagement is the id of this engagement. A request for its release names it.
	Engagement string    `json:"engagement,omitempty"`
	Since      time.Time `json:"since"`
	Reason     string    `json:"reason,omitempty"`
	// Held is how many deletes of primaries wait for a release, Swept how many owners of orphaned secondaries.
	Held  int `json:"held,omitempty"`
	Swept int `json:"swept,omitempty"`
	// Pruned is how many primaries own something that they do not want any more, and that waits for a release.
	Pruned int `json:"pruned,omitempty"`
	// Released stays until what was held has gone.
	Released bool `json:"released,omitempty"`
}

// Count is how many deletes are held, of any kind. A request for a release names at least so many.
func (s State) Count() int { return s.Held + s.Swept + s.Pruned }

// State returns what the brake is now.
func (b *Brake) State() State {
	b.mu.Lock()
	defer b.unlock()
	return b.stateNow()
}

// Held returns the keys that the brake holds. A release is for waiting, the keys whose delete is held and the missing
// owners, and for pruning, the primaries that do not want any more what they own. None is for unknown, the missing
// owners that may never have been.
func (b *Brake) Held() (waiting, pruning, unknown sets.Set[string]) {
	b.mu.Lock()
	defer b.unlock()
	return b.held.Union(b.heldOwners), b.prunes.held.Clone(), b.unknown.Clone()
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

// loadState returns what an earlier term left. What cannot be read counts as engaged, because it may have been. An
// engagement without an id, which an older version began, gets one.
func (b *Brake) loadState(ctx context.Context) (kept, error) {
	left, _, err := b.stateCell.Load(ctx)
	if errors.Is(err, record.ErrUnreadable) {
		left, err = kept{State: State{Engaged: true, Since: time.Now(), Reason: err.Error()}}, nil
	}
	if err != nil || !left.Engaged || left.Engagement != "" {
		return left, err
	}
	left.Engagement = nuid.Next()
	return left, b.stateCell.Store(ctx, left)
}

// published is what is told of the state. Before the first sweep of a term what the one before held is told, too: it
// may be held still. It needs b.mu.
func (b *Brake) published() State {
	state := b.stateNow()
	if state.Engaged && !b.swept {
		state.Held = max(state.Held, b.state.Held)
		state.Swept = max(state.Swept, b.state.Swept)
		state.Pruned = max(state.Pruned, b.state.Pruned)
	}
	return state
}

// keepState writes what the brake is now, which may be newer than what its caller made of it.
func (b *Brake) keepState(ctx context.Context) error {
	if err := b.keeping.Take(ctx); err != nil {
		return err
	}
	defer b.keeping.Give()
	b.mu.Lock()
	now := kept{State: b.published()}
	b.shown, b.shownAt = now.Count(), time.Now()
	if now.Released {
		now.Keys = fewKeys(b.allowed)
	}
	b.unlock()
	b.report(ctx)
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
	b.state = State{Engaged: true, Engagement: nuid.Next(), Since: time.Now(), Reason: reason}
	b.requests.beginEngagement()
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

// unlock ends a change of the sets, and tells of it who follows or is followed.
func (b *Brake) unlock() {
	b.busy.Store(len(b.suspects)+len(b.held)+len(b.heldOwners)+len(b.unknown)+len(b.allowed)+len(b.excused)+
		len(b.prunes.allowed) > 0 || b.prunes.any())
	b.mu.Unlock()
	if b.Changed != nil {
		b.Changed()
	}
}

// onBoard is the brake's name on the board.
const onBoard = "brake"

// requestsOnBoard is the name on the board of requests for a release that were ignored.
func (b *Brake) requestsOnBoard() string { return "release (bucket " + b.Bucket.Name() + ")" }

// report shows what the brake is now: it may be told of an older state late.
func (b *Brake) report(ctx context.Context) {
	b.Board.Change(ctx, onBoard, func() error {
		b.mu.Lock()
		defer b.unlock()
		if !b.running {
			return nil
		}
		return b.problem()
	})
	b.Board.Change(ctx, b.requestsOnBoard(), func() error {
		b.mu.Lock()
		defer b.unlock()
		if !b.running {
			return nil
		}
		return b.ignoredRequest()
	})
}

// leave ends the term: what is on the board is the next leader's.
func (b *Brake) leave(ctx context.Context) {
	b.mu.Lock()
	if b.running = false; b.Shared {
		b.endTerm()
	}
	b.unlock()
	for _, name := range []string{onBoard, b.requestsOnBoard(), b.restoreOnBoard()} {
		b.Board.Leave(ctx, name, func() error { return nil })
	}
}

// showPause is the shortest time between two writes of the state because of what is held.
const showPause = 500 * time.Millisecond

// showable returns whether what is held has changed since it was told, or after what time that is to be told. It needs
// b.mu.
func (b *Brake) showable() (now bool, wait time.Duration) {
	if !b.state.Engaged || len(b.suspects)+len(b.prunes.suspects) > 0 || b.published().Count() == b.shown {
		return false, 0
	}
	wait = time.Until(b.shownAt.Add(showPause))
	return wait <= 0, max(0, wait)
}

// show tells how many deletes are held: a request for their release has to name that.
func (b *Brake) show(ctx context.Context) {
	if err := b.keepState(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot keep how many deletes the brake holds")
	}
}

// keepAgain keeps the state of an engaged brake once more if it was removed or overwritten.
func (b *Brake) keepAgain(ctx context.Context) {
	b.mu.Lock()
	engagement := b.state.Engagement
	b.unlock()
	if engagement == "" {
		return
	}
	if left, _, err := b.stateCell.Load(ctx); ctx.Err() == nil && (err != nil || left.Engagement != engagement) {
		b.show(ctx)
	}
}

// tell tells of a change of the state.
func (b *Brake) tell(ctx context.Context, state State, message string) {
	b.report(ctx)
	b.Tell(ctx, state, message)
}

// announce says loudly that the brake engaged, as it was then, and keeps that across restarts.
func (b *Brake) announce(ctx context.Context, state State) {
	logger := klog.FromContext(ctx)
	b.mu.Lock()
	first, last := b.keepAdvice(state), b.releaseAdvice(state)
	message := fmt.Sprintf("%s (engagement %s). %s", state.Reason, state.Engagement, b.advice(state))
	b.unlock()
	logger.Error(nil, "BRAKE ENGAGED: nothing inferred is deleted until it is released",
		"reason", state.Reason, "held", state.Held, "swept", state.Swept, "bucket", b.Bucket.Name(),
		"engagement", state.Engagement, "first", first, "last", last)
	b.tell(ctx, state, message)
	if err := b.keepState(ctx); err != nil {
		logger.Error(err, "Cannot keep the state of the brake; it is decided anew after a restart")
	}
}

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

// keptBrake is what is kept of the brake.
type keptBrake struct {
	BrakeState
	// Keys are those that a release let go, so that a crash in between does not ask for another, and nothing that vanishes
	// later passes under an old release. Too many are not kept: after a crash they have to be released again.
	Keys []string `json:"releasedKeys,omitempty"`
}

// keptKeysLimit bounds the size of the kept keys, in bytes.
const keptKeysLimit = 256 << 10

// releaseRequest is what ReleaseBrake puts to the release key. An operator may put anything.
type releaseRequest struct {
	At string `json:"at"`
	By string `json:"by"`
}

// kept is what an earlier run left of the brake. What cannot be read counts as engaged: it may have been.
func (b *brake) kept(ctx context.Context) (keptBrake, error) {
	kept, _, err := b.stateKey.Load(ctx)
	if errors.Is(err, record.ErrUnreadable) {
		return keptBrake{BrakeState: BrakeState{Engaged: true, Since: time.Now(), Reason: err.Error()}}, nil
	}
	return kept, err
}

// keepable returns the keys if they are few enough to be kept.
func keepable(keys map[string]struct{}) []string {
	size := 0
	for key := range keys {
		size += len(key) + len(`"",`)
	}
	if size > keptKeysLimit {
		return nil
	}
	return slices.Sorted(maps.Keys(keys))
}

// releaseRequested is an operator's put to the release key, or ReleaseBrake.
func (b *brake) releaseRequested() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release = true
	b.poke()
}

// letGo is the release: all that is held may go, and the stream is the one we know from now on.
func (b *brake) letGo(ctx context.Context) {
	b.mu.Lock()
	going, swept := b.held, b.swept
	for key := range b.suspects {
		going[key] = struct{}{}
	}
	b.suspects, b.held, b.swept = map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	for key := range going {
		b.allowed[key] = struct{}{}
	}
	for key := range swept {
		b.allowed[key] = struct{}{}
	}
	b.state = BrakeState{Since: time.Now(), Released: true}
	b.release, b.recent, b.cleaned = false, nil, nil
	b.known = b.engine.stream()
	state, known := b.state, b.known
	b.mu.Unlock()
	e := b.engine
	klog.FromContext(ctx).Info("Brake released", "deletes", len(going), "swept", len(swept))
	b.tell(ctx, state, eventNormal, "BrakeReleased", fmt.Sprintf("%d deletes go on", len(going)+len(swept)))
	b.keep(ctx, known)
	for key := range going {
		e.queue.Add(key, operation.Of(OperationDelete), queue.Secondary)
	}
	for key := range swept {
		e.queue.Add(key, operation.Of(OperationDelete)|operation.ByHand, queue.Secondary)
	}
}

// dismiss is a release when nothing is held: it must not release what comes later.
func (b *brake) dismiss(ctx context.Context) {
	b.mu.Lock()
	b.release = false
	b.mu.Unlock()
	if err := b.releaseKey.Delete(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the key that releases the brake")
	}
}

// disengage is for a brake under which everything came back.
func (b *brake) disengage(ctx context.Context) {
	b.mu.Lock()
	b.state = BrakeState{Since: time.Now()}
	b.known = b.engine.stream()
	state, known := b.state, b.known
	b.mu.Unlock()
	klog.FromContext(ctx).Info("Brake disengaged: every document that was missing exists again")
	b.tell(ctx, state, eventNormal, "BrakeReleased", "every document that was missing exists again")
	b.keep(ctx, known)
}

// clear ends a release when all that was held has gone.
func (b *brake) clear(ctx context.Context) {
	b.mu.Lock()
	b.state.Released = false
	b.mu.Unlock()
	if err := b.keepState(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the state of the brake")
	}
}

// keep keeps a release, and ends the request for it.
func (b *brake) keep(ctx context.Context, known streamIdentity) {
	for _, err := range []error{b.streamKey.Store(ctx, known), b.keepState(ctx), b.releaseKey.Delete(ctx)} {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot keep the release of the brake; after a restart it has to be released again")
		}
	}
}

// keepState writes what the brake is now, which may be newer than what its caller made of it.
func (b *brake) keepState(ctx context.Context) error {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	b.mu.Lock()
	kept := keptBrake{BrakeState: b.stateLocked()}
	if kept.Released {
		kept.Keys = keepable(b.allowed)
	}
	b.mu.Unlock()
	if !kept.Engaged && !kept.Released {
		return b.stateKey.Delete(ctx)
	}
	return b.stateKey.Store(ctx, kept)
}

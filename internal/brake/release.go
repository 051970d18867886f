package brake

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// releaseRequest is what Release puts to the release key. An operator may put anything.
type releaseRequest struct {
	At string `json:"at"`
	By string `json:"by"`
}

// Release requests a release. It returns when the request is kept, for whichever replica leads. With nothing to release
// the request ends without effect.
func (b *Brake) Release(ctx context.Context) error {
	err := b.releaseCell.Store(ctx, releaseRequest{At: time.Now().UTC().Format(time.RFC3339), By: "ReleaseBrake"})
	if err != nil {
		return err
	}
	b.ReleaseRequested()
	return nil
}

// ReleaseRequested notes that somebody put something to the release key.
func (b *Brake) ReleaseRequested() {
	b.mu.Lock()
	defer b.unlock()
	b.requested = true
	b.poke()
}

// release lets go all that is held, and takes the stream, as it is now, for the known one. The window begins anew.
func (b *Brake) release(ctx context.Context) {
	b.mu.Lock()
	going, owners := b.held.Union(b.suspects), b.heldOwners
	b.suspects, b.held, b.heldOwners = sets.New[string](), sets.New[string](), sets.New[string]()
	pruning := b.prunes.held.Union(b.prunes.suspects)
	b.prunes = newPrunes(b.Window)
	b.prunes.allowed = pruning
	b.allowed, b.excused = b.allowed.Union(going).Union(owners), b.excused.Union(owners)
	b.state = State{Since: time.Now(), Released: true}
	b.requested, b.gone.went, b.cleaned = false, nil, nil
	b.known = knownStream{keptStream: b.known.succeededBy(b.Primaries.Stream())}
	state, known := b.stateNow(), b.known.keptStream
	b.unlock()
	klog.FromContext(ctx).Info("Brake released", "deletes", len(going), "swept", len(owners), "pruned", len(pruning))
	b.tell(ctx, state, fmt.Sprintf("%d deletes go on: "+
		"%d primaries that are gone, what %d missing owners own, and what %d primaries do not want any more",
		len(going)+len(owners)+len(pruning), len(going), len(owners), len(pruning)))
	b.keepRelease(ctx, known)
	for key := range going {
		b.Enqueue(key, operation.Of(operation.Delete), queue.Secondary)
	}
	for owner := range owners {
		b.Enqueue(owner, operation.Of(operation.Delete)|operation.ByHand, queue.Secondary)
	}
	b.enqueuePrunes(pruning)
}

// dismissRelease ends a request with nothing to release: it must not release what comes later.
func (b *Brake) dismissRelease(ctx context.Context) {
	b.mu.Lock()
	b.requested = false
	b.unlock()
	if err := b.releaseCell.Delete(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the key that releases the brake")
	}
}

// nothingHeld is why a brake disengages by itself: what was missing is back, and what was not wanted is.
const nothingHeld = "nothing waits for a release any more"

// disengage is for an engaged brake that holds nothing any more, because everything came back.
func (b *Brake) disengage(ctx context.Context) {
	b.mu.Lock()
	b.state = State{Since: time.Now()}
	b.prunes.reconsider()
	b.known = knownStream{keptStream: b.known.succeededBy(b.Primaries.Stream())}
	state, known := b.stateNow(), b.known.keptStream
	b.unlock()
	klog.FromContext(ctx).Info("Brake disengaged", "reason", nothingHeld)
	b.tell(ctx, state, nothingHeld)
	b.keepRelease(ctx, known)
}

// endRelease is for a release of which everything has gone.
func (b *Brake) endRelease(ctx context.Context) {
	b.mu.Lock()
	b.state.Released = false
	b.unlock()
	if err := b.keepState(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the state of the brake")
	}
}

// keepRelease keeps a release, and ends the request for it.
func (b *Brake) keepRelease(ctx context.Context, known keptStream) {
	for _, err := range []error{b.streamCell.Store(ctx, known), b.keepState(ctx), b.releaseCell.Delete(ctx)} {
		if err != nil {
			klog.FromContext(ctx).Error(err,
				"Cannot keep the release of the brake; after a restart it has to be released again")
		}
	}
}

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

// letGo is what a release lets go.
type letGo struct {
	deletes, owners, pruning sets.Set[string]

	state State
	known keptStream
}

// release lets go all that is held.
func (b *Brake) release(ctx context.Context) {
	b.mu.Lock()
	gone := b.letGo()
	b.unlock()
	b.released(ctx, gone)
}

// letGo lets go all that is held, and takes the stream, as it is now, for the known one. The window begins anew. It
// needs b.mu; released comes after it, without. Owners that may never have been it leaves to the
// next sweep.
func (b *Brake) letGo() letGo {
	gone := letGo{
		deletes: b.held.Union(b.suspects), owners: b.heldOwners, pruning: b.prunes.held.Union(b.prunes.suspects),
	}
	b.suspects, b.held = sets.New[string](), sets.New[string]()
	b.heldOwners, b.unknown = sets.New[string](), sets.New[string]()
	b.prunes = newPrunes(window{span: b.Window})
	for key := range gone.pruning {
		b.prunes.allowed[key] = true
	}
	b.allowed, b.excused = b.allowed.Union(gone.deletes).Union(gone.owners), b.excused.Union(gone.owners)
	b.requests.released = b.state.Engagement
	b.state = State{Since: time.Now(), Released: true}
	b.requests.beginEngagement()
	b.gone.went, b.cleaned, b.sweptIn = nil, nil, nil
	b.known = knownStream{keptStream: b.known.succeededBy(b.Primaries.Stream())}
	gone.state, gone.known = b.stateNow(), b.known.keptStream
	return gone
}

// released tells of a release, keeps it, and makes due what it let go.
func (b *Brake) released(ctx context.Context, gone letGo) {
	deletes, owners, pruning := len(gone.deletes), len(gone.owners), len(gone.pruning)
	klog.FromContext(ctx).Info("Brake released", "deletes", deletes, "swept", owners, "pruned", pruning)
	b.tell(ctx, gone.state, fmt.Sprintf("%d deletes go on: "+
		"%d primaries that are gone, what %d missing owners own, and what %d primaries do not want any more",
		deletes+owners+pruning, deletes, owners, pruning))
	b.keepRelease(ctx, gone.known)
	for key := range gone.deletes {
		b.Enqueue(key, operation.Owed, queue.Secondary)
	}
	for owner := range gone.owners {
		b.Enqueue(owner, operation.Swept, queue.Secondary)
	}
	b.enqueuePrunes(gone.pruning)
}

// nothingHeld is why a brake disengages by itself: what was missing is back, and what was not wanted is.
const nothingHeld = "nothing waits for a release any more"

// disengage is for an engaged brake that holds nothing any more, because everything came back.
func (b *Brake) disengage(ctx context.Context) {
	b.mu.Lock()
	b.state = State{Since: time.Now()}
	b.requests.beginEngagement()
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

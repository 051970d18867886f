package brake

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Where replicas share the keys, one sweeps for all, and each deletes what was swept of owners that are its own. So
// each counts what it deletes because of that, and tells the one whose brake runs when it comes back.

// SweptAtOnce reports whether all owners that the last sweep let go are told at once. Else another sweep tells the
// rest.
func (b *Brake) SweptAtOnce() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(head(b.follow.free)) == len(b.follow.free)
}

// comesBack notes owners whose secondaries come back, and needs b.mu. The brake that runs engages.
func (b *Brake) comesBack(why string, owners ...string) {
	b.follow.again, b.follow.back = why, sets.New(owners...).Union(b.follow.back)
	b.poke()
}

// anyIsBack reports whether a brake that did not run has found what comes back.
func (b *Brake) anyIsBack() (now bool, wait time.Duration) { return b.follow.again != "", 0 }

// holdBack engages the brake because of that.
func (b *Brake) holdBack(ctx context.Context) {
	b.mu.Lock()
	reason, owners := b.follow.again, b.follow.back
	b.follow.again, b.follow.back = "", nil
	engaged := !b.state.Engaged && b.engage(reason)
	if b.state.Engaged {
		b.heldOwners = b.heldOwners.Union(owners)
	}
	state := b.stateNow()
	b.unlock()
	if engaged {
		b.announce(ctx, state)
	}
}

// takeSwept takes which missing owners a sweep let go. What is deleted because of that is counted here, too.
func (b *Brake) takeSwept(t Told) {
	if t.State.Engaged {
		b.follow.again, b.follow.back, b.sweptIn = "", nil, nil
		return
	}
	b.heldOwners = sets.New[string]()
	b.forgetCleaned()
	for _, owner := range t.Swept {
		b.noteCleanUp(owner, "", 0)
	}
}

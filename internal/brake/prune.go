package brake

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
)

// prunes are the primaries that own something that their reconcile no longer wants. b.mu guards them.
type prunes struct {
	suspects sets.Set[string] // not decided yet
	held     sets.Set[string] // wait for a release
	allowed  map[string]bool  // may go; true if a release said so, whatever speaks against it
	first    time.Time        // when the first of the suspects came, and the last
	last     time.Time
	went     window // primaries whose prunes were let go without a release
	doubt    string // why one of the suspects must not go, "" if nothing is known against them
	reason   bool   // some are held for their own sake, and not only because the brake was engaged
}

func newPrunes(went window) prunes {
	return prunes{suspects: sets.New[string](), held: sets.New[string](), allowed: map[string]bool{}, went: went}
}

func (p *prunes) forget(key string) {
	p.suspects.Delete(key)
	p.held.Delete(key)
	delete(p.allowed, key)
}

// any reports whether a primary waits for a decision or for a release.
func (p *prunes) any() bool { return len(p.suspects)+len(p.held) > 0 }

// keepEngaged reports whether the brake has to stay engaged for them.
func (p *prunes) keepEngaged() bool { return len(p.suspects) > 0 || p.reason && len(p.held) > 0 }

// reconsider makes those that are held suspects again.
func (p *prunes) reconsider() {
	p.suspects, p.held = p.suspects.Union(p.held), sets.New[string]()
	p.first, p.last = time.Now(), time.Now()
}

// prunesOfTerm are those with which a term begins: where replicas share the keys, what this one has asked about.
func (b *Brake) prunesOfTerm() prunes {
	next := newPrunes(b.prunes.went)
	if b.Shared {
		next.suspects, next.doubt = b.prunes.suspects.Union(b.prunes.held), b.prunes.doubt
		next.first, next.last = time.Now(), time.Now()
	}
	return next
}

// AdmitPrune reports whether what a primary owns and does not want any more may go. If that is not decided yet, or a
// release is needed, the primary is enqueued once it may. doubt says what speaks against it; "" is nothing. Only a
// release lets go what is doubted: what the brake let go before may have been something else.
func (b *Brake) AdmitPrune(key, doubt string) bool {
	b.mu.Lock()
	defer b.unlock()
	p := &b.prunes
	if released, ok := p.allowed[key]; b.disarmed || ok && (released || doubt == "") {
		return true
	}
	if p.held.Has(key) || p.suspects.Has(key) {
		return false
	}
	p.last = time.Now()
	if len(p.suspects) == 0 {
		p.first = p.last
	}
	p.suspects.Insert(key)
	if doubt != "" {
		p.doubt = doubt
	}
	b.poke()
	return false
}

// HoldsPrune reports whether what a primary owns and does not want any more waits for a decision or for a release.
func (b *Brake) HoldsPrune(key string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.unlock()
	return b.prunes.held.Has(key) || b.prunes.suspects.Has(key)
}

// ForgetPrune notes that a primary wants all that it owns.
func (b *Brake) ForgetPrune(key string) {
	if !b.busy.Load() {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	b.prunes.forget(key)
	b.poke()
}

// collectingPrunes returns how long to wait for more suspects. A controller of a new version has reconciled all
// primaries when the backlog of its start is done. An engaged brake holds them anyway, and a request for its release
// waits for the decision.
func (b *Brake) collectingPrunes() time.Duration {
	p := &b.prunes
	if !b.state.Engaged && b.Backlog() && time.Since(p.first) < b.Window {
		return max(quiet, time.Until(p.last.Add(quiet)))
	}
	return min(time.Until(p.last.Add(quiet)), time.Until(p.first.Add(patience)))
}

func (b *Brake) prunesAreDue() (now bool, wait time.Duration) {
	if len(b.prunes.suspects) == 0 {
		return false, 0
	}
	wait = b.collectingPrunes()
	return wait <= 0, wait
}

// judgePrunes holds the suspects, or lets them go.
func (b *Brake) judgePrunes(ctx context.Context) {
	anchors := b.countAnchors()
	free, engaged := b.holdOrFreePrunes(anchors)
	if engaged != nil {
		b.announce(ctx, *engaged)
	}
	b.enqueuePrunes(free)
}

func (b *Brake) enqueuePrunes(keys sets.Set[string]) {
	for key := range keys {
		b.Enqueue(key, operation.Of(operation.Resync), queue.Secondary)
	}
}

func (b *Brake) holdOrFreePrunes(anchors int) (free sets.Set[string], engaged *State) {
	b.mu.Lock()
	defer b.unlock()
	p := &b.prunes
	reason := b.reasonNotToPrune(anchors)
	now := !b.state.Engaged && b.engage(reason)
	keys := p.suspects
	p.suspects, p.doubt = sets.New[string](), ""
	if b.state.Engaged {
		p.held = p.held.Union(keys)
		p.reason = p.reason || reason != ""
		return nil, b.stateIf(now)
	}
	for key := range keys {
		p.allowed[key] = false
		p.went.add(key, time.Now())
	}
	return keys, nil
}

// reasonNotToPrune returns why the suspects must not go; "" if they may.
func (b *Brake) reasonNotToPrune(anchors int) string {
	p := &b.prunes
	if len(p.suspects) == 0 {
		return ""
	}
	if p.doubt != "" {
		return p.doubt
	}
	if b.streamChanged() {
		return fmt.Sprintf("the stream of the bucket is not the one that was known, "+
			"and %d primaries do not want any more what they own", len(p.suspects))
	}
	going := len(p.suspects) + p.went.beside(p.suspects)
	if !massive(going, anchors) {
		return ""
	}
	return fmt.Sprintf("%d of %d primaries do not want any more what they own, within %v", going, anchors, b.Window)
}

package brake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Orphans are the secondaries of one source whose owners do not exist.
type Orphans struct {
	Source string
	Owners map[string]int // how many each missing owner has
	Count  int            // how many there are, but for those of Unproved
	Known  int            // all secondaries of this installation in that source, but for those of Unproved
	// Unproved are owners of which nothing tells that they ever were: the leader has no marker of a delete, or nobody
	// knows, see Unknown. Nothing of theirs goes, and the brake is not concerned, but for what it holds already.
	Unproved sets.Set[string]
	// Unknown are those of Unproved of which the leader did not answer, or whose record is unreadable. The term before
	// may have held them, so a brake that is engaged stays so. A release is not for them.
	Unknown sets.Set[string]
	// Stamps are what secondaries of Owners carry, if they are not on their way out.
	Stamps []owner.Stamped
	// Outdated says that the source shows an older state. None of its orphans goes, and those that are held stay held.
	Outdated bool
}

// cleanUp is what sweeps let go of an owner that does not exist.
type cleanUp struct {
	since   time.Time
	objects map[string]int // by source
}

// HoldsOrphans reports whether the brake holds secondaries of the owner, which does not exist.
func (b *Brake) HoldsOrphans(owner string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.unlock()
	return b.heldOwners.Has(owner) || b.unknown.Has(owner)
}

// Sweep is told all that a sweep found, and returns the owners whose secondaries may go. What it holds back takes the
// place of what it held back of the sweep before. A term needs at least one sweep, or an engaged brake stays engaged.
func (b *Brake) Sweep(ctx context.Context, found []Orphans) (free []string) {
	disproof, err := b.disproof(ctx, found)
	if err != nil {
		return nil // the term is over
	}
	free, engaged := b.sweep(found, disproof)
	if engaged != nil {
		b.announce(ctx, *engaged)
	}
	return free
}

func (b *Brake) sweep(found []Orphans, disproof string) (free []string, engaged *State) {
	b.mu.Lock()
	defer b.unlock()
	now := !b.state.Engaged && b.engage(b.reasonNotToSweep(found, disproof))
	held := b.heldOwners
	b.heldOwners, b.unknown, b.swept = sets.New[string](), sets.New[string](), true
	b.endPermissions(found)
	for _, o := range found {
		b.noteKnown(o)
		for owner, objects := range o.Owners {
			switch released := b.allowed.Has(owner); {
			case !o.Outdated && released:
				free = append(free, owner)
			case o.Outdated, o.Unproved.Has(owner):
				switch {
				case held.Has(owner):
					b.heldOwners.Insert(owner)
				case b.state.Engaged && o.Unknown.Has(owner):
					b.unknown.Insert(owner)
				}
			case b.state.Engaged:
				b.heldOwners.Insert(owner)
			default:
				b.noteCleanUp(owner, o.Source, objects)
				free = append(free, owner)
			}
		}
	}
	if b.Shared {
		b.follow.free = free
		b.follow.sweep++
	}
	b.poke()
	return free, b.stateIf(now)
}

// endPermissions ends those of owners that have nothing left that could go.
func (b *Brake) endPermissions(found []Orphans) {
	for key := range b.allowed {
		orphaned := slices.ContainsFunc(found, func(o Orphans) bool { return o.Owners[key] > 0 })
		if !orphaned && !b.Anchors.Has(key) {
			b.allowed.Delete(key)
		}
	}
}

// noteCleanUp remembers an owner once, however many sweeps find what is left of it.
func (b *Brake) noteCleanUp(owner, source string, objects int) {
	if b.cleaned == nil {
		b.cleaned = map[string]cleanUp{}
	}
	c, ok := b.cleaned[owner]
	if !ok {
		c = cleanUp{since: time.Now(), objects: map[string]int{}}
		b.cleaned[owner] = c
	}
	c.objects[source] = max(c.objects[source], objects)
}

// cleanedBefore counts the objects of a source that sweeps within the window let go, except those that this one found.
func (b *Brake) cleanedBefore(o Orphans) int {
	b.forgetCleaned()
	count := 0
	for owner, c := range b.cleaned {
		count += max(0, c.objects[o.Source]-o.Owners[owner])
	}
	return count
}

// forgetCleaned forgets what sweeps let go before the window.
func (b *Brake) forgetCleaned() {
	oldest := time.Now().Add(-b.Window)
	for owner, c := range b.cleaned {
		if c.since.Before(oldest) {
			delete(b.cleaned, owner)
		}
	}
}

// reasonNotToSweep returns why what was found must not go; "" if it may.
func (b *Brake) reasonNotToSweep(found []Orphans, disproof string) string {
	var going []string
	for _, o := range found {
		count := 0
		for owner, objects := range o.Owners {
			if !b.allowed.Has(owner) && !o.Unproved.Has(owner) {
				count += objects
			}
		}
		if count <= 0 || o.Outdated {
			continue
		}
		going = append(going, fmt.Sprintf("%d objects of %s", count, o.Source))
		if disproof != "" {
			continue
		}
		if b.streamChanged() {
			return fmt.Sprintf("the stream of the bucket is not the one that was known, "+
				"and %d objects of %s would be swept", count, o.Source)
		}
		before := b.cleanedBefore(o)
		if massive(count+before, o.Known+before) {
			return fmt.Sprintf("the sweep would delete %d of %d objects of %s, whose owners do not exist, within %v",
				count+before, o.Known+before, o.Source, b.Window)
		}
	}
	if disproof != "" && len(going) > 0 {
		return disproof + "; the sweep would delete " + strings.Join(going, " and ")
	}
	return ""
}

package brake

import (
	"context"
	"fmt"
	"time"
)

// Sweeps count owners and what these have. But what they let go may come back: another writer makes it anew, and then
// it is no garbage. So each delete that comes of a sweep is counted, too.

// sweptObject is one that is deleted because of a sweep. What is made anew is another version.
type sweptObject struct{ key, version string }

// sweptIn is what was deleted in a source because of sweeps.
type sweptIn struct {
	went  map[sweptObject]time.Time
	known int // objects of this installation, those that went within the window included
}

// noteKnown notes how many objects of this installation a sweep found in a source. It needs b.mu.
func (b *Brake) noteKnown(o Orphans) {
	s := b.sweptOf(o.Source)
	b.forgetSwept(s)
	s.known = o.Known + len(s.went)
}

func (b *Brake) sweptOf(source string) *sweptIn {
	if b.sweptIn == nil {
		b.sweptIn = map[string]*sweptIn{}
	}
	if b.sweptIn[source] == nil {
		b.sweptIn[source] = &sweptIn{went: map[sweptObject]time.Time{}}
	}
	return b.sweptIn[source]
}

func (b *Brake) forgetSwept(s *sweptIn) {
	oldest := time.Now().Add(-b.Window)
	for object, at := range s.went {
		if at.Before(oldest) {
			delete(s.went, object)
		}
	}
}

// WasLetGo reports whether a sweep or a release let an owner go that has no record.
func (b *Brake) WasLetGo(owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, swept := b.cleaned[owner]
	return swept || b.allowed.Has(owner)
}

// AdmitSwept reports whether an object may be deleted whose owner has neither a document nor a record, right before it
// is. Where a sweep let the owner go, it engages the brake if what went comes back again and again. What is held is
// looked at again by the next sweep.
func (b *Brake) AdmitSwept(ctx context.Context, owner, source, key, version string) bool {
	b.mu.Lock()
	if _, swept := b.cleaned[owner]; !swept || b.allowed.Has(owner) {
		b.unlock()
		return true
	}
	if b.state.Engaged {
		b.heldOwners.Insert(owner)
		b.poke()
		b.unlock()
		return false
	}
	s := b.sweptOf(source)
	s.went[sweptObject{key, version}] = time.Now()
	reason := b.reasonNotToDelete(s, source)
	if reason == "" {
		b.unlock()
		return true
	}
	b.heldOwners.Insert(owner)
	if b.Shared && !b.running {
		b.comesBack(reason, owner) // the one that runs engages, and this one follows
		b.unlock()
		return false
	}
	engaged := b.engage(reason)
	state := b.stateNow()
	b.unlock()
	if engaged {
		b.announce(ctx, state)
	}
	return !engaged
}

// reasonNotToDelete returns why no more may go of what sweeps found in a source: it comes back; "" if it does not. How
// much goes for the first time the sweep has decided.
func (b *Brake) reasonNotToDelete(s *sweptIn, source string) string {
	if len(s.went) < Least {
		return ""
	}
	b.forgetSwept(s)
	once := map[string]struct{}{}
	for object := range s.went {
		once[object.key] = struct{}{}
	}
	again := len(s.went) - len(once)
	if again == 0 || again < Least && !massive(len(s.went), max(s.known, len(once))) {
		return ""
	}
	return fmt.Sprintf("objects of %s, whose owners do not exist, come back when the sweep has deleted them, "+
		"%d times within %v: somebody makes them anew, such as another installation, whose they may be",
		source, again, b.Window)
}

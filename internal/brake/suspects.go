package brake

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// Least is the number of deletes from which on a mass delete is suspected.
	Least = 10
	// The brake decides when no suspect came for quiet, but at most patience after the first one; askPatience where the
	// leader is asked about each.
	quiet       = 300 * time.Millisecond
	patience    = 3 * time.Second
	askPatience = 30 * time.Second
)

// Admit reports whether an inferred delete of the key may go. If that is not decided yet the key becomes a suspect, and
// is enqueued once it may.
func (b *Brake) Admit(key string) bool {
	b.mu.Lock()
	defer b.unlock()
	if b.disarmed || b.allowed.Has(key) {
		return true
	}
	if !b.held.Has(key) {
		b.suspect(key)
		b.poke()
	}
	return false
}

// Reconsider makes a key a suspect again that was admitted, because more is known of how it went. It does not, and
// returns false, while there is a release, which may be for the key.
func (b *Brake) Reconsider(key string) bool {
	b.mu.Lock()
	defer b.unlock()
	if b.state.Released {
		return false
	}
	b.allowed.Delete(key)
	if b.suspect(key); b.Shared && !b.running {
		b.follow.agedOut = sets.New(key).Union(b.follow.agedOut)
	}
	b.poke()
	return true
}

// Asking says that the leader is asked whether a key was deleted. If not, the key is the next suspect. The
// brake does not decide before the function that it returns is called, but at most askPatience after the first suspect.
func (b *Brake) Asking() (answered func()) {
	b.mu.Lock()
	defer b.unlock()
	b.collection.asking++
	b.collection.asked = true
	return func() {
		b.mu.Lock()
		defer b.unlock()
		b.collection.asking--
		b.collection.last = time.Now()
		b.poke()
	}
}

// Holds reports whether a delete of the key waits for a release.
func (b *Brake) Holds(key string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.unlock()
	return b.held.Has(key)
}

// Forget notes that the key has a document, or was torn down.
func (b *Brake) Forget(key string) {
	if !b.busy.Load() {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	b.suspects.Delete(key)
	b.held.Delete(key)
	b.heldOwners.Delete(key)
	b.unknown.Delete(key)
	b.allowed.Delete(key)
	if b.Primaries.Exists(key) {
		b.excused.Delete(key)
	} else {
		b.prunes.forget(key) // it was torn down
	}
	b.poke()
}

// ForgetDelete notes that a key without a document has no anchor. What sweeps found of it stays as it is: that a
// secondary has changed does not bring its owner back.
func (b *Brake) ForgetDelete(key string) {
	if !b.busy.Load() {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	b.suspects.Delete(key)
	b.held.Delete(key)
	b.poke()
}

// suspect and the other methods that take no context need b.mu.
func (b *Brake) suspect(key string) {
	c := &b.collection
	c.last = time.Now()
	if len(b.suspects) == 0 {
		c.first, c.asked = c.last, c.asking > 0
	}
	b.suspects.Insert(key)
}

// collection is how the suspects come, before the brake decides about all of them.
type collection struct {
	first, last time.Time // when the first of them came, and the last
	asking      int       // how many answers of the leader are awaited, see Asking
	asked       bool      // it was asked since the first of them came
}

// wait returns how long to wait for more suspects.
func (c *collection) wait() time.Duration {
	switch latest := time.Until(c.first.Add(askPatience)); {
	case c.asking > 0:
		return latest
	case c.asked:
		return min(time.Until(c.last.Add(quiet)), latest)
	}
	return min(time.Until(c.last.Add(quiet)), time.Until(c.first.Add(patience)))
}

func (b *Brake) suspectsAreDue() (now bool, wait time.Duration) {
	if len(b.suspects) == 0 {
		return false, 0
	}
	wait = b.collection.wait()
	return wait <= 0, wait
}

// judgeSuspects holds the suspects, or lets them go.
func (b *Brake) judgeSuspects(ctx context.Context) {
	absent, several := b.absentSuspects()
	anchors := 0
	if several {
		anchors = b.countAnchors()
	}
	weighed := b.weigh(ctx, absent)
	if weighed.again {
		b.judgeAgain()
		return
	}
	free, engaged := b.holdOrFree(absent, anchors, weighed)
	if engaged != nil {
		b.announce(ctx, *engaged)
	}
	for _, key := range free {
		b.Enqueue(key, operation.Owed, queue.Secondary)
	}
}

// judgeAgain puts the decision off for a moment.
func (b *Brake) judgeAgain() {
	b.mu.Lock()
	defer b.unlock()
	b.collection.last, b.collection.asked = time.Now(), true
}

// absentSuspects returns the suspects whose document is absent although no delete of it was seen. The others are
// suspects no longer. It reports whether they are enough for a mass delete, with what went within the window.
func (b *Brake) absentSuspects() (keys sets.Set[string], several bool) {
	b.mu.Lock()
	defer b.unlock()
	for key := range b.suspects {
		// A late event has told that the key was deleted, and has made it due.
		if b.Primaries.Exists(key) || b.Primaries.Evidenced(key) {
			b.suspects.Delete(key)
		}
	}
	return b.suspects.Clone(), len(b.suspects)+b.gone.beside(b.suspects) >= Least
}

// countAnchors counts what is known: the anchors, but for those of primaries whose delete was seen. It takes
// a while where there are many, in which no caller should wait for the lock.
func (b *Brake) countAnchors() int {
	count := 0
	for key := range b.Anchors.All() {
		if !b.deleted(key) {
			count++
		}
	}
	return count
}

func (b *Brake) deleted(key string) bool {
	return !b.Primaries.Exists(key) && b.Primaries.Evidenced(key)
}

// holdOrFree holds those of absent that are still suspects and engages the brake, if there is a reason to or it is
// engaged already. Else it returns them: they may go. anchors need not be counted for fewer than Least. engaged is
// the state if the brake has engaged just now.
func (b *Brake) holdOrFree(
	absent sets.Set[string], anchors int, weighed weighed,
) (free []string, engaged *State) {
	b.mu.Lock()
	defer b.unlock()
	if weighed.came != b.came {
		b.collection.last = time.Now()
		return nil, nil // they are judged again, with what has come
	}
	absent = absent.Intersection(b.suspects) // the others came back meanwhile
	b.suspects = b.suspects.Difference(absent)
	now := !b.state.Engaged && len(absent) > 0 && b.engage(cmp.Or(b.reasonToHold(absent, anchors), weighed.reason))
	if b.state.Engaged {
		b.held = b.held.Union(absent)
		return nil, b.stateIf(now)
	}
	for key := range absent {
		b.allowed.Insert(key)
		b.gone.add(key, time.Now())
		if n := weighed.objects[key]; n > 0 {
			b.noteObjects(key, n)
		}
	}
	return absent.UnsortedList(), nil
}

// reasonToHold returns why so many suspects must not go; "" if they may. Whatever went within the window counts once:
// a suspect of this term may have been let go in the one before.
func (b *Brake) reasonToHold(suspects sets.Set[string], anchors int) string {
	if b.streamChanged() {
		return fmt.Sprintf("the stream of the bucket is not the one that was known "+
			"(recreated, or restored to an earlier state), and %d primaries are not in it", len(suspects))
	}
	if n := b.agedOut(suspects); n > 0 {
		return fmt.Sprintf("%d primaries expired by the age limit of the bucket, and nobody said that this is meant: "+
			"take the limit (max_age) off and put the documents back, or set entity.Config.DocumentsExpire. Or an "+
			"answer of the server, which somebody had sent in their place, has expired: put the documents back", n)
	}
	gone := b.gone.beside(suspects)
	going, known := len(suspects)+gone, anchors-b.goingAlready()+gone
	if !massive(going, known) {
		return ""
	}
	return fmt.Sprintf("%d of %d primaries vanished without a delete being seen within %v", going, known, b.Window)
}

func (b *Brake) agedOut(suspects sets.Set[string]) (n int) {
	for key := range suspects {
		if b.Primaries.AgedOut(key) {
			n++
		}
	}
	return n
}

// goingAlready counts the anchors of primaries that may go: they count among the gone and not among the known.
func (b *Brake) goingAlready() int {
	going := 0
	for key := range b.allowed {
		if b.Anchors.Has(key) && !b.deleted(key) {
			going++
		}
	}
	return going
}

// massive is the rule: at least Least, and more than half of what is known.
func massive(going, known int) bool { return going >= Least && 2*going > known }

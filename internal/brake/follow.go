package brake

import (
	"maps"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Where replicas share the keys (Config.Shared) one brake runs, and judges for all: that of the replica with the lease.
// The others follow it. They collect suspects as ever, ask about them, and hold them until they are told. Who judges
// has all keys in its caches, so it finds most suspects by itself, see Suspect: a mass delete shows before it was asked
// about each. What is asked and told are states and no messages: each repeats all that counts, so none is missed.

// Asks is what a brake that follows asks.
type Asks struct {
	// Gone are primaries that are gone, as far as its replica knows, and AgedOut those of them that outgrew the
	// bucket's age limit.
	Gone    []string `json:"gone,omitempty"`
	AgedOut []string `json:"agedOut,omitempty"`
	// Prunes are primaries that do not want any more what they own, and Doubt is what speaks against one of them.
	Prunes []string `json:"prunes,omitempty"`
	Doubt  string   `json:"doubt,omitempty"`
	// Back are missing owners whose secondaries come back when they were swept, and Again says it in words.
	Back  []string `json:"back,omitempty"`
	Again string   `json:"again,omitempty"`
}

// IsZero reports whether nothing is asked.
func (a Asks) IsZero() bool { return len(a.Gone)+len(a.Prunes)+len(a.Back) == 0 }

// Told is what the brake that runs says.
type Told struct {
	Term          uint64 `json:"term"` // the revision of the lease; a later one counts
	State         State  `json:"state"`
	StreamChanged bool   `json:"streamChanged,omitempty"`
	// Gone may go: primaries that are gone, and owners that are missing. Whole says that no others may.
	Gone  []string `json:"gone,omitempty"`
	Whole bool     `json:"whole,omitempty"`
	// AgedOut are those of them of which it is known here that they outgrew the bucket's age limit.
	AgedOut []string `json:"agedOut,omitempty"`
	// Swept are missing owners whose secondaries may go, as the sweep of this number found.
	Swept []string `json:"swept,omitempty"`
	Sweep uint64   `json:"sweep,omitempty"`
	// Prunes are primaries that were asked about and may prune; true if a release said so.
	Prunes map[string]bool `json:"prunes,omitempty"`
}

const (
	// mostSaid bounds the keys of each sort that are asked or told of at once. The rest follows when these have gone.
	mostSaid = 500
	// longestSaid bounds them in bytes: the most is said in a message that each server takes.
	longestSaid = 48 << 10
)

// following is what a brake that does not run was told, and one that does was asked.
type following struct {
	told    Told
	earlier time.Time        // since when only an earlier term is told of; zero if that is not so
	agedOut sets.Set[string] // that this brake asks about
	asked   sets.Set[string] // prunes that others ask about
	aged    sets.Set[string] // what others say has aged out
	sweep   uint64           // how many sweeps this brake was told
	free    []string         // owners that the last of them let go
	back    sets.Set[string] // owners whose secondaries come back, as this brake asks, or was asked
	again   string           // the same in words
}

// Suspect notes, where this brake runs, that a primary of another replica is gone without evidence.
func (b *Brake) Suspect(key string) {
	if b.Shared && b.Runs() {
		b.Admit(key)
	}
}

// WentElsewhere notes that another replica has torn a primary down.
func (b *Brake) WentElsewhere(key string) {
	if b.Shared {
		b.Forget(key)
	}
}

// Runs reports whether this brake judges.
func (b *Brake) Runs() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

// Asks returns what this brake asks, if it does not run. Of prunes it asks about keys at which this replica works, and
// forgets the others: what they own another replica reconciles.
func (b *Brake) Asks(mine func(key string) bool) (a Asks) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return a
	}
	waiting := b.suspects.Union(b.held)
	b.follow.agedOut = b.follow.agedOut.Intersection(waiting)
	prunes := b.prunes.suspects.Union(b.prunes.held)
	for key := range prunes {
		if !mine(key) {
			prunes.Delete(key)
			b.prunes.forget(key)
		}
	}
	if len(prunes) == 0 {
		b.prunes.doubt = ""
	}
	return Asks{
		Gone: some(waiting), AgedOut: some(b.follow.agedOut), Prunes: some(prunes), Doubt: b.prunes.doubt,
		Back: some(b.follow.back), Again: b.follow.again,
	}
}

// some are the first keys in the order of the alphabet: the same as long as they are asked about.
func some(keys sets.Set[string]) []string {
	return head(slices.Sorted(maps.Keys(keys)))
}

func head(keys []string) []string {
	size := 0
	for i, key := range keys {
		if size += len(key) + len(`"",`); i == mostSaid || size > longestSaid {
			return keys[:i]
		}
	}
	return keys
}

// Asked is told what all others ask, where this brake runs. What was not asked before it judges. Of what is asked no
// more it forgets what concerns prunes.
func (b *Brake) Asked(all []Asks) {
	asked, aged := sets.New[string](), sets.New[string]()
	for _, a := range all {
		asked.Insert(a.Prunes...)
		aged.Insert(a.AgedOut...)
	}
	b.mu.Lock()
	before := b.follow.asked
	newlyAged := aged.Difference(b.follow.aged)
	b.follow.asked, b.follow.aged = asked, aged
	for key := range before.Difference(asked) {
		b.prunes.forget(key)
	}
	for _, a := range all {
		if a.Again != "" && !b.state.Engaged {
			b.comesBack(a.Again, a.Back...)
		}
	}
	b.unlock()
	for _, a := range all {
		for _, key := range a.Gone {
			switch {
			case b.Primaries.Exists(key) || !b.Anchors.Has(key):
			case b.Primaries.Evidenced(key): // who asks was not there when it went
				b.letGoKnown(key)
			default:
				b.Admit(key)
			}
		}
		for _, key := range a.Prunes {
			b.AdmitPrune(key, a.Doubt)
		}
	}
	for key := range newlyAged {
		b.Reconsider(key)
	}
}

func (b *Brake) letGoKnown(key string) {
	b.mu.Lock()
	defer b.unlock()
	b.allowed.Insert(key)
}

// Tells returns what this brake says to those that follow it, in the term that began with the lease at a revision; ok
// is false if it does not run.
func (b *Brake) Tells(term uint64) (t Told, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return t, false
	}
	t = Told{
		Term: term, State: b.published(), StreamChanged: b.streamChanged(), Gone: some(b.allowed),
		AgedOut: some(b.follow.aged.Intersection(b.allowed)), Sweep: b.follow.sweep, Prunes: map[string]bool{},
	}
	t.Whole = len(t.Gone) == len(b.allowed)
	if !b.state.Engaged {
		t.Swept = head(b.follow.free)
	}
	may := sets.New[string]()
	for key := range b.prunes.allowed {
		if b.follow.asked.Has(key) {
			may.Insert(key)
		}
	}
	for _, key := range some(may) {
		t.Prunes[key] = b.prunes.allowed[key]
	}
	return t, true
}

// Forgets is for another stream of the status bucket, in which a term has any number.
func (b *Brake) Forgets() {
	b.mu.Lock()
	defer b.unlock()
	if b.follow.told = (Told{}); !b.running {
		b.allowed = sets.New[string]()
	}
}

// Follow takes what the brake that runs says, where this one does not, and makes due what may go. It reports whether it
// is to be told the same again soon.
func (b *Brake) Follow(t Told) (again bool) {
	b.mu.Lock()
	if b.isEarlier(t) {
		b.unlock()
		return true
	}
	gone, swept, pruned := b.take(t)
	b.unlock()
	for _, key := range gone {
		ops := operation.Swept
		if b.Anchors.Has(key) {
			ops = operation.Owed
		}
		b.Enqueue(key, ops, queue.Secondary)
	}
	for _, owner := range swept {
		b.Enqueue(owner, operation.Swept, queue.Background)
	}
	b.enqueuePrunes(pruned)
	return false
}

// take takes what it is told, and returns what may go since now. It needs b.mu.
func (b *Brake) take(t Told) (gone, swept []string, pruned sets.Set[string]) {
	if b.running {
		return nil, nil, nil
	}
	again := t.Term != b.follow.told.Term || t.Sweep != b.follow.told.Sweep
	b.follow.told, b.state = t, t.State
	agedUnknown := b.follow.agedOut.Difference(sets.New(t.AgedOut...)) // it was let go before that was known
	may := sets.New(t.Gone...).Difference(agedUnknown)
	if t.Whole {
		b.allowed = b.allowed.Intersection(may)
	}
	gone = may.Difference(b.allowed).UnsortedList()
	b.allowed = b.allowed.Union(may)
	if again {
		swept = t.Swept
	}
	b.takeSwept(t)
	waiting := b.suspects.Union(b.held).Difference(b.allowed)
	prunes := b.prunes.suspects.Union(b.prunes.held)
	pruned = sets.New[string]()
	for key, released := range t.Prunes {
		if prunes.Has(key) {
			b.prunes.allowed[key] = released
			pruned.Insert(key)
		}
	}
	prunes = prunes.Difference(pruned)
	none := sets.New[string]()
	if t.State.Engaged {
		b.suspects, b.held, b.prunes.suspects, b.prunes.held = none, waiting, none.Clone(), prunes
	} else {
		b.suspects, b.held, b.prunes.suspects, b.prunes.held = waiting, none, prunes, none.Clone()
	}
	return gone, swept, pruned
}

// endTerm is for the end of a term of a brake that follows the next one: what it let go the next one decides anew. It
// needs b.mu.
func (b *Brake) endTerm() {
	b.suspects, b.held = b.suspects.Union(b.held), sets.New[string]()
	b.heldOwners, b.unknown, b.allowed = sets.New[string](), sets.New[string](), sets.New[string]()
	b.prunes.suspects, b.prunes.held = b.prunes.suspects.Union(b.prunes.held), sets.New[string]()
	clear(b.prunes.allowed)
	b.follow.asked, b.follow.aged = nil, nil
}

package lifecycle

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Sweep finds secondaries whose owner does not exist, by source, and counts those whose owner cannot be told. It asks
// the leader about owners that are missing, and else caches only, so a system that is healthy costs no request.
func (t *Teardown) Sweep(ctx context.Context) (found []brake.Orphans, _ Ownerless) {
	left, none := t.leftOwners(), t.ownerless()
	others := t.readElsewhere(ctx, t.owners)
	none.Unread = len(others.unread) > 0
	t.askAboutMissing(ctx, left, none, others) // first: it takes a while, in which teardowns go on
	for _, s := range t.swept() {
		if o := t.orphanedIn(ctx, s, left, none, others); len(o.Owners) > 0 {
			found = append(found, o)
		}
	}
	none.report(ctx)
	if o := t.forgottenIntents(ctx); o.Count > 0 {
		found = append(found, o)
	}
	none.Orphaned = none.Hashed + none.NeverWas + none.unanswered
	for _, o := range found {
		none.Orphaned += o.Count
	}
	t.keepOrphans(none.orphans)
	if !none.Unread { // else what is left may be among what could not be read
		t.unusedLeft = left.forgetUnused(ctx, t.unusedLeft)
	}
	return found, none.Ownerless
}

// askAboutMissing asks the leader about each owner that has neither a document nor a record, and whose secondaries were
// not left on purpose. One that is named by a hash alone is known only if it has either. Those that a sweep before has
// asked about come last, in any order: however many owners are made up, or held by the brake, the others get their
// turn, those first that have waited for the most sweeps.
func (t *Teardown) askAboutMissing(ctx context.Context, left *leftOwners, none *ownerless, others elsewhere) {
	anew, again, missing := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, s := range t.swept() {
		claim := t.Owner.Claim().In(s)
		for obj := range others.all(s) {
			named, ok := claim.OwnerOf(obj)
			key, _ := named.Key()
			if !ok || key == "" || !claim.Owns(obj, key) || t.Primaries.Exists(key) ||
				t.mayOwe(key) || left.has(ctx, key) || claim.IsProven(obj) {
				continue
			}
			missing.Insert(key)
			if t.marked.Has(key) || t.found[neverWas].Before(nameOf(s, obj)) {
				again.Insert(key)
				continue
			}
			anew.Insert(key)
		}
	}
	t.askInTurn(ctx, anew, none)
	later := sets.List(again.Difference(anew))
	rand.Shuffle(len(later), func(i, j int) { later[i], later[j] = later[j], later[i] })
	for _, key := range later {
		none.ask(ctx, key)
	}
	for key := range missing {
		if none.had[key] != marked && (none.had[key] == never || !t.marked.Has(key)) {
			missing.Delete(key)
		}
	}
	t.marked = missing
}

// BeginSweeps forgets whom sweeps have asked about: the next is the first of a term.
func (t *Teardown) BeginSweeps() { t.marked, t.waits = nil, nil }

// askInTurn asks about owners of which nothing is known. Those that wait for the next sweep are the same on each
// replica that begins, and so are the orphans that it lists.
func (t *Teardown) askInTurn(ctx context.Context, anew sets.Set[string], none *ownerless) {
	keys, waits := sets.List(anew), map[string]int{}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(t.waits[b], t.waits[a]) })
	for _, key := range keys {
		none.ask(ctx, key)
		if _, asked := none.had[key]; !asked {
			waits[key] = t.waits[key] + 1
		}
	}
	t.waits, none.Unasked = waits, len(waits)
}

// swept are the sources that the runtime deletes in; without a cascade all that primaries own something in.
func (t *Teardown) swept() []source.Owned {
	if t.NoCascade {
		return t.Sources()
	}
	return t.deletable()
}

func (t *Teardown) orphanedIn(
	ctx context.Context, s source.Owned, left *leftOwners, none *ownerless, others elsewhere,
) brake.Orphans {
	found := brake.Orphans{
		Source: s.String(), Owners: map[string]int{}, Unproved: sets.New[string](), Unknown: sets.New[string](),
		Outdated: t.Guard.Outdated(s) != nil || others.unread[s.String()] != nil,
	}
	claim := t.Owner.Claim().In(s)
	_, known, foreigners := others.count(s, claim)
	found.Known += known
	for range foreigners {
		t.Counters.Foreign()
	}
	for obj := range others.all(s) {
		v, key := none.judge(ctx, s, obj, claim, left)
		none.note(v, s, obj)
		none.noteOrphan(v, s, obj)
		if v == foreign {
			t.Counters.Foreign()
		}
		ruling := &rulings[v]
		if ruling.known {
			found.Known++
		}
		switch {
		case ruling.goes:
			found.Count++
			note(&found, obj, key)
		case ruling.kept && (v == unreadable || t.wellFormed(key)): // else there is none to ask about, or to release
			keepBack(&found, obj, key, ruling.unknown)
		}
	}
	return found
}

// keepBack notes an owner of which nothing goes. unknown says that it may never have been.
func keepBack(found *brake.Orphans, obj metav1.Object, key string, unknown bool) {
	found.Unproved.Insert(key)
	if unknown {
		found.Unknown.Insert(key)
	}
	note(found, obj, key)
}

// note notes an object of a missing owner, with its stamp.
func note(found *brake.Orphans, obj metav1.Object, key string) {
	found.Owners[key]++
	if stamp := owner.StampOf(obj); !stamp.IsNone() && obj.GetDeletionTimestamp() == nil {
		found.Stamps = append(found.Stamps, owner.Stamped{Key: key, Stamp: stamp})
	}
}

// forgottenIntents are the intents of keys that neither exist nor owe a teardown: the record was removed.
// Where the client has a Config.Filter the cache has no reserved keys, and none are found.
func (t *Teardown) forgottenIntents(ctx context.Context) brake.Orphans {
	found := brake.Orphans{Source: "intents", Owners: map[string]int{}}
	names := map[string]struct{}{}
	for _, name := range t.Records.Informer().GetStore().ListKeys() {
		if strings.HasPrefix(name, record.IntentsPrefix) {
			names[name] = struct{}{}
		}
	}
	if len(names) == 0 {
		return found
	}
	found.Known = len(names)
	for _, key := range t.Primaries.Keys() {
		delete(names, record.IntentsKey(key))
	}
	for key, anchor := range t.Records.All() {
		if record.IsAnchor(anchor) {
			delete(names, record.IntentsKey(key))
		}
	}
	for name := range names {
		kept, held, err := record.JSON[apisource.Intents](t.Reserved, name).Load(ctx)
		if err != nil || !held || record.IntentsKey(kept.Key) != name {
			continue
		}
		if t.Primaries.Exists(kept.Key) || t.mayOwe(kept.Key) || !t.wellFormed(kept.Key) {
			continue
		}
		found.Owners[kept.Key]++
		found.Count++
	}
	return found
}

// mayOwe reports whether a key that does not exist owes a teardown, or may.
func (t *Teardown) mayOwe(key string) bool {
	return record.IsAnchor(t.Anchors.Cached(key)) || t.Records.Unreadable(key)
}

func (t *Teardown) wellFormed(key string) bool {
	return !source.IsReserved(key) && t.Primaries.CheckKey(key) == nil
}

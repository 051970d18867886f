package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// guarded is a controller of Sites, with one object of the site "shop/home" in one source. What the ways to delete ask
// is healthy, and says that the object may go.
type guarded struct {
	prune  bool // the primary is there, at revision 5
	owed   bool // it is gone, and has an anchor
	object *metav1.ObjectMeta
	claim  owner.Claim
	open   bool
	leads  error

	cached    bool // the cache shows otherwise
	leader    error
	otherwise bool // the leader says otherwise
	outdated  error
	late      bool
	holds     bool // the brake

	there map[string]bool // keys whose documents are there, if that is not nil
	shown string          // one that the cache alone shows
	known map[string]bool // keys that have an anchor, whatever owed says

	contested bool
	removed   int
}

func newGuarded(prune, owed bool) *guarded {
	g := &guarded{
		prune: prune, owed: owed, claim: owner.Claim{Kind: "Site", Instance: "here"},
		object: &metav1.ObjectMeta{Namespace: "shop", Name: "page", UID: "1", ResourceVersion: "7"},
	}
	entity.SetOwner(g.object, "Site", "shop/home", "here")
	return g
}

// As deletes.Primaries, and what a prune asks beside.

func (g *guarded) Exists(key string) bool {
	if g.there != nil {
		return g.there[key] || g.shown == key
	}
	return g.prune != g.cached
}

func (g *guarded) Decoded(string) (revision uint64, ok bool) {
	if g.cached {
		return 6, true
	}
	return 5, g.prune
}

func (g *guarded) Confirm(_ context.Context, key string) (entity.Presence, error) {
	if g.leader != nil {
		return entity.Presence{}, g.leader
	}
	if g.there != nil {
		return entity.Presence{Exists: g.there[key], Revision: 5}, nil
	}
	return entity.Presence{Exists: g.prune != g.otherwise, Revision: 5}, nil
}

func (g *guarded) View(string) source.View {
	revision, _ := g.Decoded("")
	return source.View{Revision: revision, Object: &metav1.ObjectMeta{Name: "home"}}
}

func (g *guarded) Stream() source.Stream       { return source.Stream{Created: "first", Highest: 9} }
func (g *guarded) CheckKey(string) error       { return nil }
func (g *guarded) Keys() []string              { return nil }
func (g *guarded) AdmitPrune(_, _ string) bool { return !g.holds }
func (g *guarded) ForgetPrune(string)          {}
func (g *guarded) LetsGo(string) bool          { return g.owed && !g.holds }

func (g *guarded) WasLetGo(string) bool { return true }

func (g *guarded) HoldsOrphans(string) bool { return g.holds }

func (g *guarded) AdmitSwept(context.Context, string, string, string, string) bool {
	return !g.owed && !g.holds
}

// As TeardownOwner.

func (g *guarded) Claim() owner.Claim            { return g.claim }
func (g *guarded) LastSeen(string) metav1.Object { return &metav1.ObjectMeta{} }

func (g *guarded) SetOwner(obj metav1.Object, key string, _ owner.Resource) {
	entity.SetOwner(obj, g.claim.Kind, key, g.claim.Instance)
}

// As record.Records.
type guardedRecords struct {
	record.Records
	*guarded
}

func (r guardedRecords) Cached(key string) (*entity.Record, bool) {
	if r.owed || r.known[key] {
		return &entity.Record{Controller: "sites"}, true
	}
	return nil, false
}

// guardedSource is the source.
type guardedSource struct {
	source.Placed
	g *guarded
}

func (s guardedSource) String() string           { return "OwnsKube" }
func (s guardedSource) Resource() owner.Resource { return owner.ResourceOfKube("", "configmaps") }
func (s guardedSource) AnyNamespace() bool       { return s.g.open }
func (s guardedSource) Deletable() bool          { return true }
func (s guardedSource) Rewrites() bool           { return true }
func (s guardedSource) Outdated() error          { return s.g.outdated }
func (s guardedSource) Prunes() bool             { return true }
func (s guardedSource) CheckKey(string) error    { return nil }
func (s guardedSource) Place() source.Place      { return source.Place{Bucket: "pages"} }

func (s guardedSource) OwnedBy(string) ([]metav1.Object, error) { return s.objects(), nil }

func (s guardedSource) OwnedLive(context.Context, string) ([]metav1.Object, error) {
	return s.objects(), nil
}

func (s guardedSource) Live(_ context.Context, obj metav1.Object) (metav1.Object, error) {
	return obj, nil
}

func (s guardedSource) objects() []metav1.Object {
	if s.g.removed > 0 {
		return nil
	}
	return []metav1.Object{s.g.object}
}

func (s guardedSource) Remove(_ context.Context, permit deletes.Permit) error {
	if permit.Object() == metav1.Object(s.g.object) {
		s.g.removed++
	}
	return nil
}

func (g *guarded) guard() *deletes.Guard {
	return deletes.New(deletes.Config{
		Kind: "Site", Primaries: g, Claim: g.Claim,
		Leads: func(ctx context.Context) error { return errors.Join(context.Cause(ctx), g.leads) },
		Late:  func(deletes.Source) bool { return g.late }, Contest: func(string) { g.contested = true },
		LeaderErrors: func() {},
	})
}

// cascade deletes as a teardown does, which looks at the sources before.
func (g *guarded) cascade(ctx context.Context) (gone bool, err error) {
	return g.cascadeIn(ctx, guardedSource{g: g})
}

func (g *guarded) cascadeIn(ctx context.Context, in source.Owned) (gone bool, err error) {
	td := NewTeardown(TeardownConfig{
		Kind: "Site", Primaries: g, Owner: g, Guard: g.guard(), Brake: g, APIs: &apisource.Set{},
		Anchors:  &record.Anchors{Records: guardedRecords{guarded: g}},
		Sources:  func() []source.Owned { return []source.Owned{in} },
		Counters: TeardownCounters{Cascaded: func() {}, Foreign: func() {}},
	})
	return td.cascade(ctx, td.absence("shop/home"))
}

// leftNothing are records of which none says that a secondary was left on purpose.
type leftNothing struct{ TeardownRecords }

func (leftNothing) Unreadable(string) bool { return false }

func (leftNothing) GetReserved(context.Context, string) (data []byte, revision uint64, err error) {
	return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// orphans deletes what an operator has ordered, as a sweep has seen it.
func (g *guarded) orphans(ctx context.Context) {
	td := NewTeardown(TeardownConfig{
		Kind: "Site", Primaries: g, Owner: g, Guard: g.guard(), Brake: g, APIs: &apisource.Set{}, Records: leftNothing{},
		Anchors:  &record.Anchors{Records: guardedRecords{guarded: g}},
		Counters: TeardownCounters{Cascaded: func() {}},
	})
	o := Orphan{Object: "shop/page", OwnerKey: "shop/home", Why: OrphanNeverWas, in: guardedSource{g: g},
		version: writtenAs(g.object)}
	if g.object.Namespace == "away" {
		o.Object = "away/page"
	}
	round := &orphansRound{Teardown: td, until: time.Now().Add(time.Hour), seen: ownedNow{}}
	_ = round.deleteOf(ctx, "shop/home", []Orphan{o})
}

// endedReconcile wants nothing of what it owns.
type endedReconcile struct{}

func (endedReconcile) Key() string                                  { return "shop/home" }
func (endedReconcile) Wanted(source.Place) (sets.Set[string], bool) { return sets.New[string](), true }
func (endedReconcile) Kept() map[source.Place][]string              { return nil }
func (endedReconcile) Pending() (time.Duration, string)             { return 0, "" }
func (endedReconcile) WaitFor(string, time.Duration)                {}

// unwanted prunes.
func (g *guarded) unwanted(ctx context.Context) {
	p := &Pruner{
		Kind: "Site", Primaries: g, Claim: g.Claim, Brake: g,
		Sources: func() []Prunable { return []Prunable{guardedSource{g: g}} },
		Guard:   g.guard(), Pruned: func() {},
	}
	_ = p.After(ctx, endedReconcile{}, 5)
}

// another is a way to delete that looks at nothing before.
func (g *guarded) another(ctx context.Context) {
	brake := func(context.Context, deletes.Source, metav1.Object) bool { return !g.holds }
	round := g.guard().OfGone("shop/home", brake)
	if g.prune {
		round = g.guard().OfUnwanted("shop/home", 5, brake)
	}
	_ = round.Delete(ctx, guardedSource{g: g}, g.object)
}

// TestACascadeWaitsForASourceThatIsAway: it has lost its sync since the cascade looked, or has just come. That is no
// failure of the primary's teardown.
func TestACascadeWaitsForASourceThatIsAway(t *testing.T) {
	for name, away := range map[string]func(g *guarded){
		"not synced": func(g *guarded) { g.outdated = source.ErrNotSynced },
		"just come":  func(g *guarded) { g.late = true },
	} {
		g := newGuarded(false, true)
		away(g)
		if gone, err := g.cascade(t.Context()); gone || err != nil || g.removed != 0 {
			t.Errorf("%s: gone %v, %v; %d removed", name, gone, err, g.removed)
		}
	}
}

// TestNothingGoesThatOneCheckRefuses, whichever way it would go, also one that is not thought of yet.
func TestNothingGoesThatOneCheckRefuses(t *testing.T) {
	cascade := func(g *guarded, ctx context.Context) { _, _ = g.cascade(ctx) }
	secret, err := owner.NewSecrets([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]func(g *guarded){
		"it is another installation's": func(g *guarded) { entity.SetOwner(g.object, "Site", "shop/home", "there") },
		"it is another primary's":      func(g *guarded) { entity.SetOwner(g.object, "Site", "shop/other", "here") },
		"its labels contradict":        func(g *guarded) { g.object.Labels[entity.OwnerKeyLabel] = "other" },
		"it is in another namespace":   func(g *guarded) { g.object.Namespace = "away" },
		"it has no proof":              func(g *guarded) { g.claim.Proofs = secret },
		"the source is outdated":       func(g *guarded) { g.outdated = errors.New("the watch stands still") },
		"the source has not synced":    func(g *guarded) { g.outdated = source.ErrNotSynced },
		"the source has just come":     func(g *guarded) { g.late = true },
		"the cache says otherwise":     func(g *guarded) { g.cached = true },
		"the leader says otherwise":    func(g *guarded) { g.otherwise = true },
		"the leader does not answer":   func(g *guarded) { g.leader = errors.New("no answer") },
		"the brake holds it":           func(g *guarded) { g.holds = true },
		"the lease is lost":            func(g *guarded) { g.leads = errors.New("lost") },
	}
	for way, test := range map[string]struct {
		prune, owed bool
		run         func(*guarded, context.Context)
	}{
		"the cascade":               {false, true, cascade},
		"the cascade after a sweep": {false, false, cascade},
		"orphans that are ordered":  {false, false, (*guarded).orphans},
		"the prune":                 {true, true, (*guarded).unwanted},
		"another, of what is gone":  {false, true, (*guarded).another},
		"another, of what is there": {true, true, (*guarded).another},
	} {
		g := newGuarded(test.prune, test.owed)
		test.run(g, t.Context())
		if g.removed != 1 || !g.contested {
			t.Errorf("%s: %d objects went, contested is %v; want one", way, g.removed, g.contested)
		}
		for refuses, change := range checks {
			g := newGuarded(test.prune, test.owed)
			change(g)
			if test.run(g, t.Context()); g.removed > 0 {
				t.Errorf("%s: the object went though %s", way, refuses)
			}
		}
		g = newGuarded(test.prune, test.owed)
		ended, end := context.WithCancel(t.Context())
		end()
		if test.run(g, ended); g.removed > 0 {
			t.Errorf("%s: the object went after the term", way)
		}
	}
}

// TestASourceDeletesNothingWithoutAPermit: the zero value names no object.
func TestASourceDeletesNothingWithoutAPermit(t *testing.T) {
	g := newGuarded(false, true)
	defer func() {
		if recover() == nil || g.removed > 0 {
			t.Errorf("%d objects went", g.removed)
		}
	}()
	_ = guardedSource{g: g}.Remove(t.Context(), deletes.Permit{})
}

// TestAPurgeStaysOneWhileItsTeardownWaits, also where no anchor says that one is owed.
func TestAPurgeStaysOneWhileItsTeardownWaits(t *testing.T) {
	for _, op := range []operation.Operation{operation.Delete, operation.Purge} {
		r := &RecordedLife{Anchors: &record.Anchors{Records: guardedRecords{guarded: newGuarded(false, false)}}}
		asked := operation.Of(op) | operation.ByHand
		if again := r.opsWithoutAnchor(queue.Item{Key: "home", Ops: asked}); again != asked {
			t.Errorf("%v: it goes on as %v", asked, again)
		}
	}
}

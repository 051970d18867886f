package lifecycle

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestATerminalErrorDoesNotParkATeardownThatWaitsForAnOperation: who settles the operation need not wake the key, too.
func TestATerminalErrorDoesNotParkATeardownThatWaitsForAnOperation(t *testing.T) {
	open, terminal := apisource.LeftOpen{Err: errors.New("an operation goes on")}, errors.New("terminal")
	err := withLeftOpen(&open, terminal)
	if errors.Is(err, terminal) || !errors.Is(err, open.Err) || !strings.Contains(err.Error(), terminal.Error()) {
		t.Errorf("got %v", err)
	}
	if !errors.Is(withLeftOpen(&open, deletes.ErrDocumentReturned), deletes.ErrDocumentReturned) {
		t.Error("that the document is back is hidden")
	}
	if none := (&apisource.LeftOpen{}); !errors.Is(withLeftOpen(none, terminal), terminal) {
		t.Error("a terminal error is none any more")
	}
}

// noneLate is a guard that is asked only which sources are outdated.
var noneLate = deletes.New(deletes.Config{Late: func(deletes.Source) bool { return false }})

// owns is a source of secondaries.
type owns struct {
	source.Owned
	deletable bool
	objects   *objects
}

// objects are what a source's cache and its API server have.
type objects struct{ cached, live []metav1.Object }

func (o owns) OwnedBy(string) ([]metav1.Object, error) { return o.objects.cached, nil }

func (o owns) Elsewhere() iter.Seq[entity.ApartDocument] { return source.Whole{}.Elsewhere() }
func (o owns) OwnerHash(string) uint64                   { return 0 }

func (o owns) OwnedLive(context.Context, string) ([]metav1.Object, error) { return o.objects.live, nil }

func (o owns) Deletable() bool  { return o.deletable }
func (owns) Outdated() error    { return nil }
func (owns) AnyNamespace() bool { return false }
func (owns) String() string     { return "OwnsKube" }

func (owns) Resource() owner.Resource { return owner.ResourceOfKube("", "configmaps") }

// dated is a source that may be outdated.
type dated struct {
	owns
	err error
}

func (d dated) Outdated() error { return d.err }

// TestATeardownWaitsForOutdatedSourcesInWhichItDeletes, and says for which and why.
func TestATeardownWaitsForOutdatedSourcesInWhichItDeletes(t *testing.T) {
	behind := errors.New("the watch stands still")
	old := dated{owns{deletable: true, objects: &objects{}}, behind}
	all := []source.Owned{
		owns{deletable: true}, dated{owns{deletable: true}, nil}, dated{owns{deletable: false}, behind},
	}
	td := NewTeardown(TeardownConfig{Guard: noneLate, Sources: func() []source.Owned { return slices.Clone(all) }})
	if waiting, why := td.outdatedSources(); len(waiting) > 0 || why != nil {
		t.Errorf("it waits for %v: %v", waiting, why)
	}
	all = append(all, old)
	waiting, why := td.outdatedSources()
	if len(waiting) != 1 || waiting[0] != source.Owned(old) || !errors.Is(why, behind) ||
		!strings.Contains(why.Error(), "OwnsKube") {
		t.Errorf("it waits for %v: %v", waiting, why)
	}
}

// listed is a source that may be outdated, and whose API server has what the cache does not show.
type listed struct {
	dated
	live metav1.Object
}

func (listed) OwnedBy(string) ([]metav1.Object, error) { return nil, nil }

func (l listed) OwnedLive(context.Context, string) ([]metav1.Object, error) {
	return []metav1.Object{l.live}, nil
}

// sites owns what names a site of this installation.
type sites struct{}

func (sites) Claim() owner.Claim            { return owner.Claim{Kind: "Site", Instance: "here"} }
func (sites) LastSeen(string) metav1.Object { return nil }

func (sites) SetOwner(metav1.Object, string, owner.Resource) {}

// TestWhatAnAPIServerListsOfAnOutdatedSourceStays until the source is not outdated any more.
func TestWhatAnAPIServerListsOfAnOutdatedSourceStays(t *testing.T) {
	object := func(name string) metav1.Object {
		obj := &metav1.PartialObjectMetadata{}
		obj.Name = name
		entity.SetOwner(obj, "Site", "home", "here")
		return obj
	}
	old := listed{dated{owns{deletable: true}, errors.New("the watch stands still")}, object("of the old")}
	fine := listed{dated{owns{deletable: true}, nil}, object("of the other")}
	td := NewTeardown(TeardownConfig{
		Guard: noneLate, Owner: sites{}, APIs: &apisource.Set{},
		Sources: func() []source.Owned { return []source.Owned{old, fine} },
	})
	a := &absence{teardown: td, key: "home"}
	a.stale, _ = td.outdatedSources()
	targets, err := td.toDelete(t.Context(), a)
	if err != nil || len(targets) != 1 || targets[0].object != fine.live {
		t.Errorf("it deletes %v: %v", targets, err)
	}
}

// claims is the owner of what names Sites of the installation "here".
type claims struct{ TeardownOwner }

func (claims) Claim() owner.Claim { return owner.Claim{Kind: "Site", Instance: "here"} }

// secondary is an object of the site "home".
func secondary(name, uid string) metav1.Object {
	obj := &metav1.ObjectMeta{Name: name, UID: types.UID(uid)}
	entity.SetOwner(obj, "Site", "home", "here")
	return obj
}

// TestALiveListDeletesNothingThatASourceWithoutADeleterShows: what was left out on purpose of the informer with the
// deleter is in the informer without, and stays. Where uids were taken off, names tell.
func TestALiveListDeletesNothingThatASourceWithoutADeleterShows(t *testing.T) {
	scratch, data, bare := secondary("scratch", "1"), secondary("data", "2"), secondary("bare", "3")
	all := []source.Owned{
		owns{deletable: true, objects: &objects{live: []metav1.Object{scratch, data, bare}}},
		owns{objects: &objects{cached: []metav1.Object{
			data, secondary("bare", ""), secondary("scratch", "of-another-resource"),
		}}},
	}
	td := NewTeardown(TeardownConfig{
		Guard: noneLate, Kind: "Site", Owner: claims{},
		Sources: func() []source.Owned { return slices.Clone(all) },
	})
	found, err := td.ownedLive(t.Context(), &absence{key: "home"})
	if err != nil || len(found) != 1 || found[0].object != scratch {
		t.Errorf("it would delete %v, %v; want only what no other source shows", found, err)
	}
}

// TestALiveListDeletesNothingWhileASourceWithoutADeleterIsAway: it may be that which shows that the object is to stay.
func TestALiveListDeletesNothingWhileASourceWithoutADeleterIsAway(t *testing.T) {
	keeper := dated{owns{objects: &objects{}}, source.ErrNotSynced}
	api := &objects{live: []metav1.Object{secondary("data", "2")}}
	td := NewTeardown(TeardownConfig{Guard: noneLate, Kind: "Site", Owner: claims{}, Sources: func() []source.Owned {
		return []source.Owned{owns{deletable: true, objects: api}, keeper}
	}})
	found, err := td.ownedLive(t.Context(), &absence{key: "home"})
	if !errors.Is(err, source.ErrNotSynced) || len(found) > 0 {
		t.Errorf("it would delete %v: %v", found, err)
	}
	api.live = nil
	if _, err := td.ownedLive(t.Context(), &absence{key: "home"}); err != nil {
		t.Errorf("it waits for a source without a deleter though nothing is to be deleted: %v", err)
	}
}

// opened is a source whose objects may name owners in other namespaces.
type opened struct{ owns }

func (opened) AnyNamespace() bool { return true }

// TestAnObjectOfAnotherNamespaceDoesNotGoWithThePrimary, whether a cache or the API server shows it; unless its source
// is open.
func TestAnObjectOfAnotherNamespaceDoesNotGoWithThePrimary(t *testing.T) {
	in := func(namespace string) metav1.Object {
		obj := &metav1.ObjectMeta{Name: "page", Namespace: namespace, UID: types.UID(namespace)}
		entity.SetOwner(obj, "Site", "shop/home", "here")
		return obj
	}
	all := []metav1.Object{in("shop"), in("away"), in("")}
	for name, test := range map[string]struct {
		source source.Owned
		want   int
	}{
		"by default": {owns{deletable: true, objects: &objects{cached: all, live: all}}, 2},
		"open":       {opened{owns{deletable: true, objects: &objects{cached: all, live: all}}}, 3},
	} {
		foreign := 0
		td := NewTeardown(TeardownConfig{
			Guard: noneLate, Kind: "Site", Owner: claims{},
			Sources:  func() []source.Owned { return []source.Owned{test.source} },
			Counters: TeardownCounters{Foreign: func() { foreign++ }},
		})
		cached, err := td.ownedBy(&absence{teardown: td, key: "shop/home"})
		if err != nil || len(cached) != test.want || foreign != 3-test.want {
			t.Errorf("%s: of the cache %v would go, %d are foreign: %v", name, cached, foreign, err)
		}
		live, err := td.ownedLive(t.Context(), &absence{teardown: td, key: "shop/home"})
		if err != nil || len(live) != test.want {
			t.Errorf("%s: of the server %v would go: %v", name, live, err)
		}
	}
}

func (o owns) All() iter.Seq[metav1.Object] { return slices.Values(o.objects.cached) }

// TestWhatCrossesNamespacesIsNotCountedAsOwned: the more there seems to be, the more may go before the brake engages.
func TestWhatCrossesNamespacesIsNotCountedAsOwned(t *testing.T) {
	var all []metav1.Object
	for _, namespace := range []string{"shop", "away", "away"} {
		obj := &metav1.ObjectMeta{Name: "page", Namespace: namespace}
		entity.SetOwner(obj, "Site", "shop/home", "here")
		all = append(all, obj)
	}
	shelf := owns{deletable: true, objects: &objects{cached: all}}
	for _, test := range []struct {
		source source.Owned
		want   int
	}{{shelf, 1}, {opened{shelf}, 3}} {
		td := NewTeardown(TeardownConfig{
			Guard: noneLate, Kind: "Site", Owner: claims{},
			Sources: func() []source.Owned { return []source.Owned{test.source} },
		})
		if n := td.CountOwned(); n != test.want {
			t.Errorf("%d are owned, want %d", n, test.want)
		}
	}
}

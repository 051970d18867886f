package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// world has one primary, "home" at revision 5 of the first stream, and two places. It owns old and new in each.
type world struct {
	home     *entity.Object[struct{}, struct{}]
	pages    *place
	disks    *place
	wanted   map[string]sets.Set[string]
	kept     map[source.Place][]string
	began    uint64 // the revision with which the reconcile began
	cached   uint64
	leader   func() (entity.Presence, error)
	asked    int  // the leader
	shared   bool // others may have the installation's id
	pending  string
	held     bool
	events   []string // what happened, in order
	pruneErr error
}

type place struct {
	source.Owned
	name     string
	w        *world
	objects  []metav1.Object
	live     func(obj metav1.Object) (metav1.Object, error) // nil: as it was seen
	spared   bool                                           // it is not pruned
	outdated error
	refuses  error
	onRemove func()
}

func (p *place) String() string      { return p.name }
func (p *place) Prunes() bool        { return !p.spared }
func (p *place) AnyNamespace() bool  { return false }
func (p *place) Place() source.Place { return source.Place{Bucket: p.name} }
func (p *place) Outdated() error     { return p.outdated }

func (p *place) Resource() owner.Resource { return owner.ResourceOfBucket(p.name) }

func (p *place) OwnedBy(string) ([]metav1.Object, error) { return p.objects, nil }

func (p *place) Remove(_ context.Context, permit deletes.Permit) error {
	obj := permit.Object()
	p.w.events = append(p.w.events, "delete "+p.name+" "+obj.GetName())
	if p.onRemove != nil {
		p.onRemove()
	}
	return p.refuses
}

func (p *place) CheckKey(key string) error {
	if strings.Contains(key, "/") {
		return errors.New("a name holds no slash")
	}
	return nil
}

func (p *place) Live(_ context.Context, obj metav1.Object) (metav1.Object, error) {
	if p.live != nil {
		return p.live(obj)
	}
	return obj, nil
}

func newWorld() *world {
	w := &world{
		home: &entity.Object[struct{}, struct{}]{}, wanted: map[string]sets.Set[string]{},
		kept: map[source.Place][]string{}, began: 5, cached: 5,
	}
	w.leader = func() (entity.Presence, error) { return entity.Presence{Exists: true, Revision: w.cached}, nil }
	w.pages, w.disks = w.place("pages"), w.place("disks")
	return w
}

func (w *world) place(name string) *place {
	p := &place{name: name, w: w}
	for _, object := range []string{"old", "new"} {
		obj := &metav1.ObjectMeta{Name: object}
		owner.Owner{Kind: "Site", Key: "home", Instance: "here"}.Own(obj)
		owner.Stamp{Stream: "first", Revision: 4}.Set(obj)
		owner.SetWriter(obj, "sites-status")
		obj.ResourceVersion, obj.UID = "7", types.UID(name+" "+object)
		p.objects = append(p.objects, obj)
	}
	return p
}

// old is the object that is not wanted.
func (p *place) old() metav1.Object { return p.objects[0] }

func (w *world) Key() string { return "home" }
func (w *world) Wanted(place source.Place) (sets.Set[string], bool) {
	keys, ok := w.wanted[place.Bucket]
	return keys, ok
}
func (w *world) Pending() (time.Duration, string)     { return 0, w.pending }
func (w *world) WaitFor(what string, _ time.Duration) { w.events = append(w.events, "waits for "+what) }
func (w *world) View(string) source.View              { return source.View{Revision: w.cached, Object: w.home} }
func (w *world) Stream() source.Stream                { return source.Stream{Created: "first", Highest: 9} }
func (w *world) ForgetPrune(string)                   { w.events = append(w.events, "settled") }
func (w *world) Kept() map[source.Place][]string      { return w.kept }
func (w *world) Confirm(context.Context, string) (entity.Presence, error) {
	w.asked++
	return w.leader()
}
func (w *world) AdmitPrune(_, doubt string) bool {
	if doubt != "" {
		w.events = append(w.events, "doubt: "+doubt)
	}
	return doubt == "" && !w.held
}

func (w *world) Exists(string) bool            { return true }
func (w *world) Decoded(string) (uint64, bool) { return w.cached, true }

func (w *world) pruner() *lifecycle.Pruner {
	claim := func() owner.Claim { return owner.Claim{Kind: "Site", Instance: "here"} }
	return &lifecycle.Pruner{
		Kind: "Site", Primaries: w, Brake: w,
		Sources: func() []lifecycle.Prunable { return []lifecycle.Prunable{w.pages, w.disks} },
		Places: func() sets.Set[source.Place] {
			return lifecycle.PrunedPlaces([]source.Owned{w.pages, w.disks})
		},
		Claim: claim, Writer: "sites-status", Shared: w.shared,
		Pruned: func() { w.events = append(w.events, "pruned") },
		Guard: deletes.New(deletes.Config{
			Kind: "Site", Primaries: w, Claim: claim,
			Leads:        func(ctx context.Context) error { return context.Cause(ctx) },
			Late:         func(deletes.Source) bool { return false },
			Contest:      func(string) { w.events = append(w.events, "contested") },
			LeaderErrors: func() { w.events = append(w.events, "the leader is away") },
		}),
	}
}

// after returns what happens after a reconcile.
func (w *world) after() string {
	w.pruneErr = w.pruner().After(context.Background(), w, w.began)
	return strings.Join(w.events, ", ")
}

func TestWhatIsNotWantedGoes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"of the places that were spoken of": {func(*world) {}, "contested, delete pages old, pruned, settled"},
		"not while the reconcile waits":     {func(w *world) { w.pending = "a disk" }, ""},
		"not where the brake holds it": {func(w *world) { w.held = true },
			`waits for the brake, before pages "old" goes`},
		"not where the policy keeps it": {func(w *world) {
			w.home.Annotations = map[string]string{entity.DeletionPolicyAnnotation: entity.DeletionPolicyOrphan}
		}, ""},
		"not where the view is an old one": {func(w *world) { w.pages.outdated = errors.New("old") }, "settled"},
		"not what is being deleted": {func(w *world) {
			w.pages.old().SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		}, "settled"},
		"not what is another installation's": {func(w *world) {
			owner.Owner{Kind: "Site", Key: "home", Instance: "there"}.Own(w.pages.old())
		}, "settled"},
		"without a stamp, too": {func(w *world) {
			delete(w.pages.old().GetAnnotations(), entity.OwnerRevisionAnnotation)
		}, "contested, delete pages old, pruned, settled"},
		"not where it is not pruned": {func(w *world) { w.pages.spared = true }, "settled"},
		"all of two places": {func(w *world) { w.wanted["disks"] = sets.New[string]() },
			"contested, delete pages old, pruned, delete disks old, pruned, delete disks new, pruned, settled"},
	} {
		w := newWorld()
		w.wanted["pages"] = sets.New("new")
		test.change(w)
		if got := w.after(); got != test.want || w.pruneErr != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, w.pruneErr, test.want)
		}
	}
}

// TestWhatWasWrittenForALaterDocumentIsDoubted: the documents may have been restored.
func TestWhatWasWrittenForALaterDocumentIsDoubted(t *testing.T) {
	for stamp, doubted := range map[owner.Stamp]bool{
		{Stream: "first", Revision: 5}:   false,
		{Stream: "first", Revision: 6}:   true,
		{Stream: "another", Revision: 1}: true,
	} {
		w := newWorld()
		w.wanted["pages"] = sets.New("new")
		stamp.Set(w.pages.old())
		got := w.after()
		if doubted != strings.Contains(got, "doubt: Site \"home\", at revision 5, does not want pages \"old\" any more") ||
			doubted == strings.Contains(got, "delete") {
			t.Errorf("%+v: %s", stamp, got)
		}
	}
}

// TestADeleteThatIsNotAnsweredStaysContested, and the other objects go.
func TestADeleteThatIsNotAnsweredStaysContested(t *testing.T) {
	w := newWorld()
	w.wanted["pages"], w.wanted["disks"] = sets.New("new"), sets.New("new")
	lost := errors.New("no answer")
	w.pages.refuses = lost
	if got := w.after(); !errors.Is(w.pruneErr, lost) || !slices.Equal(w.events,
		[]string{"contested", "delete pages old", "delete disks old", "pruned"}) {
		t.Errorf("%s, %v", got, w.pruneErr)
	}
}

// TestNothingGoesThatALaterDocumentMayWant: the cache and the leader must still have the revision that was reconciled,
// before each delete.
func TestNothingGoesThatALaterDocumentMayWant(t *testing.T) {
	const latest = `waits for the cache to show the latest document, before pages "old" goes`
	away := errors.New("no answer")
	for name, test := range map[string]struct {
		change func(w *world)
		want   string
		err    error
	}{
		"the cache has a later one": {func(w *world) { w.cached = 6 },
			`waits for the reconcile of a later revision, before pages "old" goes`, nil},
		"the leader has a later one": {func(w *world) {
			w.leader = func() (entity.Presence, error) { return entity.Presence{Exists: true, Revision: 6}, nil }
		}, latest, nil},
		"the leader has none": {func(w *world) {
			w.leader = func() (entity.Presence, error) { return entity.Presence{Revision: 5}, nil }
		}, latest, nil},
		"the leader does not answer": {func(w *world) {
			w.leader = func() (entity.Presence, error) { return entity.Presence{}, away }
		}, "the leader is away", away},
		"a later one comes meanwhile": {func(w *world) {
			w.wanted["disks"] = sets.New("new")
			w.pages.onRemove = func() { w.cached = 6 }
		}, `contested, delete pages old, pruned, waits for the cache to show the latest document, before disks "old" goes`,
			nil},
		"it wants all": {func(w *world) {
			w.cached, w.wanted["pages"] = 6, sets.New("old", "new")
		}, "settled", nil},
	} {
		w := newWorld()
		w.wanted["pages"] = sets.New("new")
		test.change(w)
		if got := w.after(); got != test.want || !errors.Is(w.pruneErr, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, w.pruneErr, test.want, test.err)
		}
	}
}

// TestTheLeaderIsAskedAgainWhenItsAnswerIsOld, and not for each of many objects; nor where nothing is to go.
func TestTheLeaderIsAskedAgainWhenItsAnswerIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.wanted["pages"], w.wanted["disks"] = sets.New[string](), sets.New[string]()
		w.after()
		if w.asked != 1 {
			t.Errorf("for four objects it was asked %d times, want once", w.asked)
		}
		w.pages.onRemove = func() { time.Sleep(deletes.LeaderTrusted) }
		w.after()
		if w.asked != 1+3 {
			t.Errorf("then it was asked %d times, want 3", w.asked-1)
		}
		w.wanted["pages"], w.wanted["disks"] = sets.New("old", "new"), sets.New("old", "new")
		w.after()
		if w.asked != 1+3 {
			t.Error("it was asked though nothing was to go")
		}
	})
}

// TestWhatTheServerHasOtherwiseIsNotDeleted: the cache may be behind.
func TestWhatTheServerHasOtherwiseIsNotDeleted(t *testing.T) {
	const goes = "contested, delete pages old, pruned, settled"
	const stays = `waits for the cache to show what has changed of pages "old", before it goes`
	unanswered := errors.New("no answer")
	for name, test := range map[string]struct {
		change func(seen, live *metav1.ObjectMeta)
		want   string
	}{
		"as it was seen":         {func(_, _ *metav1.ObjectMeta) {}, goes},
		"another version":        {func(_, live *metav1.ObjectMeta) { live.ResourceVersion = "8" }, stays},
		"another of that name":   {func(_, live *metav1.ObjectMeta) { live.UID = "another" }, stays},
		"being deleted":          {func(_, live *metav1.ObjectMeta) { live.DeletionTimestamp = &metav1.Time{} }, stays},
		"seen without a uid":     {func(seen, _ *metav1.ObjectMeta) { seen.UID = "" }, goes},
		"seen without a version": {func(seen, _ *metav1.ObjectMeta) { seen.ResourceVersion = "" }, goes},
		"and then another's": {func(seen, live *metav1.ObjectMeta) {
			seen.ResourceVersion = ""
			live.Annotations[entity.OwnerKeyAnnotation] = "shop"
		}, stays},
		"and then written by another": {func(seen, live *metav1.ObjectMeta) {
			seen.ResourceVersion = ""
			owner.SetWriter(live, "another")
		}, stays},
		"and then for a later document": {func(seen, live *metav1.ObjectMeta) {
			seen.ResourceVersion = ""
			owner.Stamp{Stream: "first", Revision: 6}.Set(live)
		}, stays},
	} {
		w := newWorld()
		w.wanted["pages"] = sets.New("new")
		seen := w.pages.old().(*metav1.ObjectMeta)
		live := seen.DeepCopy()
		test.change(seen, live)
		w.pages.live = func(metav1.Object) (metav1.Object, error) { return live, nil }
		if got := w.after(); got != test.want || w.pruneErr != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, w.pruneErr, test.want)
		}
	}
	w := newWorld()
	w.wanted["pages"] = sets.New("new")
	w.pages.live = func(metav1.Object) (metav1.Object, error) { return nil, nil }
	if got := w.after(); got != "settled" || w.pruneErr != nil {
		t.Errorf("gone: %q, %v", got, w.pruneErr)
	}
	w.events, w.pages.live = nil, func(metav1.Object) (metav1.Object, error) { return nil, unanswered }
	if got := w.after(); got != "" || !errors.Is(w.pruneErr, unanswered) {
		t.Errorf("unanswered: %q, %v", got, w.pruneErr)
	}
}

// TestWhatAnotherControllerMayHaveWrittenIsDoubted, whoever has the installation's id.
func TestWhatAnotherControllerMayHaveWrittenIsDoubted(t *testing.T) {
	for _, test := range []struct {
		writer string
		shared bool // others may have the id
		doubt  string
	}{
		{"sites-status", true, ""},
		{"sites-status", false, ""},
		{"others-status", true, `which the controller with the status bucket "others-status" has written`},
		{"others-status", false, `which the controller with the status bucket "others-status" has written`},
		{"", true, "which does not tell which controller wrote it"},
		{"", false, ""},
	} {
		w := newWorld()
		w.shared = test.shared
		w.wanted["pages"] = sets.New("new")
		annotations := w.pages.old().GetAnnotations()
		delete(annotations, entity.OwnerStatusBucketAnnotation)
		owner.SetWriter(w.pages.old(), test.writer)
		got := w.after()
		if doubted := strings.Contains(got, "doubt"); doubted != (test.doubt != "") || !strings.Contains(got, test.doubt) ||
			doubted == strings.Contains(got, "delete pages") {
			t.Errorf("%+v: %s", test, got)
		}
		if test.doubt != "" && (!strings.Contains(got, `("here")`) || !strings.Contains(got, "WithInstance")) {
			t.Errorf("it does not say what to do: %s", got)
		}
	}
}

// TestAReconcileThatKeepsWhatCannotBeFails, also if it is not done, and not if it has failed already.
func TestAReconcileThatKeepsWhatCannotBeFails(t *testing.T) {
	for _, test := range []struct {
		kept  map[source.Place][]string
		after time.Duration
		says  string
	}{
		{map[source.Place][]string{{Bucket: "pages"}: {"old", "a/b"}}, 0, `nothing of pages can have the key "a/b"`},
		{map[source.Place][]string{{Bucket: "pages"}: {"a/b"}}, time.Hour, `nothing of pages can have the key "a/b"`},
		{map[source.Place][]string{{Bucket: "disks"}: {"a/b"}}, 0, `nothing of disks can have the key "a/b"`},
		{map[source.Place][]string{{Bucket: "else"}: nil}, 0, "bucket else is that of no Owns of this controller"},
		{map[source.Place][]string{{Informer: &informer{}}: nil}, 0, "KeepKube: the informer is none of this controller's"},
		{map[source.Place][]string{{Bucket: "pages"}: {"old"}}, 0, ""},
	} {
		w := newWorld()
		w.kept, w.wanted["pages"] = test.kept, sets.New("new")
		reconcile := func(err error) (lifecycle.Requeue, error) {
			return w.pruner().Around(func(context.Context, string, operation.Operations) (lifecycle.Requeue, error) {
				return lifecycle.Requeue{After: test.after}, err
			})(reconcilectx.With(t.Context(), reconciling{world: w}), "home", 0)
		}
		failed := errors.New("failed")
		if after, err := reconcile(failed); err != failed || after.After != test.after || len(w.events) > 0 {
			t.Errorf("%v: after a failure %v, %v: %v", test.kept, after, err, w.events)
		}
		_, err := reconcile(nil)
		if test.says == "" && (err != nil || len(w.events) == 0) {
			t.Errorf("%v: %v, %v", test.kept, err, w.events)
		}
		if test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || len(w.events) > 0) {
			t.Errorf("%v: %v, %v; want %q", test.kept, err, w.events, test.says)
		}
	}
}

// reconciling is the reconcile of the world in a context.
type reconciling struct {
	reconcilectx.Reconcile
	*world
}

func (r reconciling) WaitFor(what string, after time.Duration) { r.world.WaitFor(what, after) }
func (reconciling) Keep(source.Place, ...string)               {}
func (reconciling) Want(source.Place, string)                  {}

type informer struct{ cache.SharedIndexInformer }

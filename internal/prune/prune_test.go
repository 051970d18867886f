package prune_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownerproof"
	"github.com/nagi-runtime/nagi/internal/prune"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// world has one primary, "home" at revision 5 of the first stream, and two places. It owns old and new in each.
type world struct {
	home     *entity.Object[struct{}, struct{}]
	pages    *place
	disks    *place
	wanted   map[string]sets.Set[string]
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
	outdated error
	refuses  error
}

func (p *place) String() string      { return p.name }
func (p *place) Prunes() bool        { return true }
func (p *place) Place() source.Place { return source.Place{Bucket: p.name} }
func (p *place) Outdated() error     { return p.outdated }

func (p *place) Resource() ownerproof.Resource { return ownerproof.Bucket(p.name) }

func (p *place) OwnedBy(string) ([]metav1.Object, error) { return p.objects, nil }

func (p *place) Remove(_ context.Context, obj metav1.Object) error {
	p.w.events = append(p.w.events, "delete "+p.name+" "+obj.GetName())
	return p.refuses
}

func newWorld() *world {
	w := &world{home: &entity.Object[struct{}, struct{}]{}, wanted: map[string]sets.Set[string]{}}
	w.pages, w.disks = w.place("pages"), w.place("disks")
	return w
}

func (w *world) place(name string) *place {
	p := &place{name: name, w: w}
	for _, object := range []string{"old", "new"} {
		obj := &metav1.ObjectMeta{Name: object}
		owner.Owner{Kind: "Site", Key: "home", Instance: "here"}.Own(obj)
		owner.Stamp{Stream: "first", Revision: 4}.Set(obj)
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
func (w *world) View(string) source.View              { return source.View{Revision: 5, Object: w.home} }
func (w *world) Stream() source.Stream                { return source.Stream{Created: "first", Highest: 9} }
func (w *world) ForgetPrune(string)                   { w.events = append(w.events, "settled") }
func (w *world) AdmitPrune(_, doubt string) bool {
	if doubt != "" {
		w.events = append(w.events, "doubt: "+doubt)
	}
	return doubt == "" && !w.held
}

// after returns what happens after a reconcile.
func (w *world) after() string {
	p := &prune.Pruner{
		Kind: "Site", Sources: []prune.Source{w.pages, w.disks}, Primaries: w, Brake: w,
		Claim:   func() owner.Claim { return owner.Claim{Kind: "Site", Instance: "here"} },
		Contest: func(string) { w.events = append(w.events, "contested") },
		Pruned:  func() { w.events = append(w.events, "pruned") },
	}
	w.pruneErr = p.After(context.Background(), w)
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

package kubesource

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// host is a controller that remembers what a source tells it.
type host struct {
	changed  chan source.Source
	resumed  chan string
	answered chan kubeapi.Server
	unlisted int
}

func newHost() *host {
	return &host{make(chan source.Source, 100), make(chan string, 100), make(chan kubeapi.Server, 100), 0}
}

func (h *host) SourceChanged(_ context.Context, s source.Source) { h.changed <- s }
func (h *host) Resume(key string)                                { h.resumed <- key }
func (h *host) Answered(server kubeapi.Server)                   { h.answered <- server }
func (h *host) Claim() owner.Claim                               { return sitesHere() }
func (h *host) Stopping() bool                                   { return false }
func (h *host) Unlisted()                                        { h.unlisted++ }

// sink ignores events.
type sink struct{}

func (*sink) Created(context.Context, metav1.Object, bool)          {}
func (*sink) Updated(context.Context, metav1.Object, metav1.Object) {}
func (*sink) Deleted(context.Context, any)                          {}

// deleter is a deleter of a handle.
type deleter struct {
	err    error
	unseen []metav1.Object
}

func (d *deleter) Delete(context.Context, metav1.Object) error { return d.err }
func (d *deleter) ResourceName() string                        { return "configmaps/v1" }

func (d *deleter) Probe(context.Context, string, string) (string, error) {
	return "", errors.New("no rights")
}

func (d *deleter) EachLive(context.Context, string, func(metav1.Object)) (string, error) {
	return "", errors.New("no rights")
}

func (d *deleter) Unseen(kind, key string) []metav1.Object {
	return slices.DeleteFunc(slices.Clone(d.unseen), func(obj metav1.Object) bool {
		ownerKind, ownerKey, _ := entity.OwnerOf(obj)
		return ownerKind != kind || ownerKey != key
	})
}

// object is an object that the site of that key owns; "" is nobody.
func object(name, site string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.Namespace, obj.Name, obj.UID = "shop", name, types.UID("of-"+name)
	if site != "" {
		entity.SetOwner(obj, "Site", site, "here")
	}
	return obj
}

// ownedSource is a source of what sites own, with its host.
func ownedSource(t *testing.T, d Deleter) (*Source, *host) {
	h := newHost()
	s := New(stillInformer(), h, Config{Role: "OwnsKube", Number: 1, Kind: "Site", Owned: true, Deleter: d})
	s.SetSink(&sink{})
	must(t, s.Start(t.Context()))
	t.Cleanup(s.Stop)
	return s, h
}

func TestASourceIsNamedByWhatSaysMost(t *testing.T) {
	for want, config := range map[string]Config{
		"OwnsKube my maps (informer 2)": {Role: "OwnsKube", Number: 2, Name: "my maps",
			Deleter: &deleter{}},
		"OwnsKube configmaps/v1 (informer 3)":            {Role: "OwnsKube", Number: 3, Deleter: &deleter{}},
		"WatchesKube PartialObjectMetadata (informer 0)": {Role: "WatchesKube"},
	} {
		if got := New(stillInformer(), newHost(), config).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestASourceThatIsNotStartedSaysSo(t *testing.T) {
	s, _ := ownedSource(t, &deleter{})
	says(t, s.WhyNotSynced(t.Context()), "not started")
	s.informer = &following{SharedIndexInformer: s.informer} // does not tell whether it was started
	says(t, s.WhyNotSynced(t.Context()), "no rights")
}

// TestOwnedObjectsAreThoseOfTheCacheAndTheOnesItDoesNotShowYet, each once.
func TestOwnedObjectsAreThoseOfTheCacheAndTheOnesItDoesNotShowYet(t *testing.T) {
	written := object("both", "home")
	s, _ := ownedSource(t, &deleter{unseen: []metav1.Object{written, object("new", "home"), object("other", "away")}})
	for name, site := range map[string]string{"both": "home", "old": "home", "elsewhere": "away", "nobody": ""} {
		must(t, s.informer.GetIndexer().Add(object(name, site)))
	}
	owned, err := s.OwnedBy("home")
	must(t, err)
	var names []string
	for _, obj := range owned {
		names = append(names, obj.GetName())
		if obj.GetName() == "both" && obj != metav1.Object(written) {
			t.Error("the cache's object is taken for what was written later")
		}
	}
	slices.Sort(names)
	if want := []string{"both", "new", "old"}; !slices.Equal(names, want) {
		t.Errorf("owned: %v, want %v", names, want)
	}
}

func TestADeleteOfWhatIsGoneSucceedsAndOneOfAnUnknownResourceDoesNot(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		err error
		ok  bool
	}{
		"done":             {nil, true},
		"gone":             {apierrors.NewNotFound(maps, "settings"), true},
		"unknown resource": {apierrors.NewGenericServerResponse(404, "delete", maps, "settings", "", 0, true), false},
		"refused":          {apierrors.NewForbidden(maps, "settings", errDone), false},
	} {
		s, _ := ownedSource(t, &deleter{err: test.err})
		if err := remove(t.Context(), s, object("settings", "home")); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _ := ownedSource(t, &deleter{err: lost(syscall.ECONNREFUSED)})
	if by := kubeapi.UnansweredBy(remove(t.Context(), s, object("settings", "home"))); by != s.Server() {
		t.Errorf("the error is marked with server %d, want %d", by, s.Server())
	}
}

// TestADeleteIsWaitedForUntilTheCacheShowsIt: the object is gone, is going, or was made again.
func TestADeleteIsWaitedForUntilTheCacheShowsIt(t *testing.T) {
	going, again := object("settings", "home"), object("settings", "home")
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	again.UID = "another"
	for name, show := range map[string]func(cache.Store) error{
		"gone":       func(store cache.Store) error { return store.Delete(object("settings", "home")) },
		"going":      func(store cache.Store) error { return store.Update(going) },
		"made again": func(store cache.Store) error { return store.Update(again) },
	} {
		s, _ := ownedSource(t, &deleter{})
		must(t, s.informer.GetStore().Add(object("settings", "home")))
		log := &ownwrites.Log{}
		must(t, remove(ownwrites.WithLog(t.Context(), log), s, object("settings", "home")))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if log.Wait(ended) == nil {
			t.Errorf("%s: it is not waited for", name)
		}
		must(t, show(s.informer.GetStore()))
		must(t, log.Wait(t.Context()))
	}
}

func TestAPrimaryResumesWhenTheNameThatItAwaitsIsFree(t *testing.T) {
	for name, event := range map[string]func(s *Source, ctx context.Context){
		"gone": func(s *Source, ctx context.Context) { s.deleted(ctx, object("settings", "")) },
		"gone, final state unknown": func(s *Source, ctx context.Context) {
			s.deleted(ctx, cache.DeletedFinalStateUnknown{Key: "shop/settings", Obj: object("settings", "")})
		},
		"another owner": func(s *Source, ctx context.Context) {
			s.updated(ctx, object("settings", "away"), object("settings", "home"))
		},
	} {
		s, h := ownedSource(t, nil)
		await := func(place source.Place, primary string) (news bool) {
			return source.AwaitName([]source.Source{s}, place, "shop/settings", primary)
		}
		if !await(s.Place(), "home") {
			t.Errorf("%s: it is no news", name)
		}
		if await(s.Place(), "home") {
			t.Errorf("%s: it is news twice", name)
		}
		if await(source.Place{Informer: stillInformer()}, "home") {
			t.Errorf("%s: the source takes another informer for its own", name)
		}
		await(s.Place(), "forgotten")
		s.ForgetNames("forgotten")
		s.updated(t.Context(), object("settings", "away"), object("settings", "away"))
		s.deleted(t.Context(), object("other", ""))
		if n := len(h.resumed); n > 0 {
			t.Errorf("%s: %d are resumed by other events", name, n)
		}
		event(s, t.Context())
		if n := len(h.resumed); n != 1 || <-h.resumed != "home" {
			t.Errorf("%s: %d are resumed, want home", name, n)
		}
		event(s, t.Context())
		if n := len(h.resumed); n > 0 {
			t.Errorf("%s: it is resumed again", name)
		}
	}
}

func TestAnInformerThatWasStoppedCannotBeASource(t *testing.T) {
	informer := stillInformer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	informer.RunWithContext(ctx)
	s := New(informer, newHost(), Config{Role: "OwnsKube"})
	says(t, s.Start(t.Context()), "stopped already", "OwnsKube")
}

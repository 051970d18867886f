package kubesource

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listing is a deleter that lists what a primary owns, or is refused.
type listing struct {
	deleter
	refused    error
	namespaces []string      // that it was told to list in
	deadline   time.Duration // that a list has
}

func (l *listing) OwnedLive(
	ctx context.Context, _, _ string, namespaces func() []string,
) ([]metav1.Object, error) {
	deadline, _ := ctx.Deadline()
	l.deadline, l.namespaces = time.Until(deadline), namespaces()
	return nil, l.refused
}

var forbiddenList = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no rights"))

// TestAPassingRefusalOfALiveListIsNoEmptyList: an API server that has just started refuses everybody. Only a refusal
// that lasts leaves it to the cache alone, and that is counted.
func TestAPassingRefusalOfALiveListIsNoEmptyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &listing{refused: forbiddenList}
		s, h := ownedSource(t, d)
		ask := func() error {
			_, err := s.OwnedLive(t.Context(), "home")
			return err
		}
		if err := ask(); !apierrors.IsForbidden(err) {
			t.Errorf("the first refusal: %v", err)
		}
		time.Sleep(refusalPatience - time.Second)
		d.refused = nil
		if err := ask(); err != nil {
			t.Errorf("with rights: %v", err)
		}
		d.refused = forbiddenList
		time.Sleep(time.Minute)
		if err := ask(); !apierrors.IsForbidden(err) || h.unlisted > 0 {
			t.Errorf("a refusal after that: %v, %d counted", err, h.unlisted)
		}
		time.Sleep(refusalPatience)
		if err := ask(); err != nil || h.unlisted != 1 {
			t.Errorf("a refusal that lasts: %v, %d counted", err, h.unlisted)
		}
		time.Sleep(2 * refusalForgotten)
		if err := ask(); !apierrors.IsForbidden(err) {
			t.Errorf("a refusal long after: %v", err)
		}
		if d.deadline != livePatience {
			t.Errorf("a list may take %v, want %v", d.deadline, livePatience)
		}
	})
}

// remove deletes what the site "home" owned, which is gone.
func remove(ctx context.Context, s *Source, obj metav1.Object) error {
	guard := deletes.New(deletes.Config{
		Kind: "Site", Primaries: noSites{}, Claim: s.host.Claim,
		Leads: func(context.Context) error { return nil }, Late: func(deletes.Source) bool { return false },
		Contest: func(string) {}, LeaderErrors: func() {},
	})
	letsGo := func(context.Context, deletes.Source, metav1.Object) bool { return true }
	return guard.OfGone("home", letsGo).Delete(ctx, synced{s}, obj)
}

// synced is a source that has synced.
type synced struct{ *Source }

func (synced) Outdated() error { return nil }

// noSites are no primaries.
type noSites struct{}

func (noSites) Exists(string) bool            { return false }
func (noSites) Decoded(string) (uint64, bool) { return 0, false }
func (noSites) Confirm(context.Context, string) (entity.Presence, error) {
	return entity.Presence{}, nil
}

// TestALiveListIsOfTheNamespacesThatTheSourceKnows where that of all is forbidden: also of those in which it has just
// deleted the last object, and of the primary's.
func TestALiveListIsOfTheNamespacesThatTheSourceKnows(t *testing.T) {
	d := &listing{}
	s, _ := ownedSource(t, d)
	must(t, s.informer.GetStore().Add(object("settings", "home")))
	gone := object("gone", "home")
	gone.Namespace = "emptied"
	must(t, remove(t.Context(), s, gone))
	if _, err := s.OwnedLive(t.Context(), "homes/home"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"emptied", "homes", "shop"}; !slices.Equal(d.namespaces, want) {
		t.Errorf("it lists in %q, want %q", d.namespaces, want)
	}
}

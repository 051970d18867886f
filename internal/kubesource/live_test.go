package kubesource

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// TestALiveListIsOfTheNamespacesThatTheSourceKnows where that of all is forbidden: also of those in which it has just
// deleted the last object, and of the primary's.
func TestALiveListIsOfTheNamespacesThatTheSourceKnows(t *testing.T) {
	d := &listing{}
	s, _ := ownedSource(t, d)
	must(t, s.informer.GetStore().Add(object("settings", "home")))
	gone := object("gone", "home")
	gone.Namespace = "emptied"
	must(t, s.Remove(t.Context(), gone))
	if _, err := s.OwnedLive(t.Context(), "homes/home"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"emptied", "homes", "shop"}; !slices.Equal(d.namespaces, want) {
		t.Errorf("it lists in %q, want %q", d.namespaces, want)
	}
}

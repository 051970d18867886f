package lifecycle

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestEachOwnerHasItsTurnToBeAskedAbout, however many come anew with each sweep that would be before it by their keys.
func TestEachOwnerHasItsTurnToBeAskedAbout(t *testing.T) {
	td, _ := familyOf(0, 0)
	waiting := sets.New("shop/zoo")
	for i := range 3 * mostAsked {
		waiting.Insert(fmt.Sprintf("shop/first%05d", i))
	}
	for sweep := range 6 {
		none := td.ownerless()
		for i := range mostAsked {
			waiting.Insert(fmt.Sprintf("shop/anew%d-%05d", sweep, i))
		}
		td.askInTurn(t.Context(), waiting, none)
		if none.asked != mostAsked || none.Unasked != waiting.Len()-mostAsked {
			t.Fatalf("sweep %d: %d asked, and %d are left", sweep, none.asked, none.Unasked)
		}
		for key := range none.had {
			waiting.Delete(key)
		}
		if !waiting.Has("shop/zoo") {
			return
		}
	}
	t.Error("shop/zoo has no turn")
}

// lists is a source with objects.
type lists struct {
	guardedSource
	objects []metav1.Object
}

func (l lists) All() iter.Seq[metav1.Object] { return slices.Values(l.objects) }

// TestTheLeaderIsNotAskedAboutAnOwnerWhoseTeardownIsOwed: a mass delete would take the turns of the others.
func TestTheLeaderIsNotAskedAboutAnOwnerWhoseTeardownIsOwed(t *testing.T) {
	td, s := teardownOf(0, 0)
	s.g.there, s.g.known = map[string]bool{}, map[string]bool{"shop/owes": true}
	var pages []metav1.Object
	for _, key := range []string{"shop/owes", "shop/gone"} {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: "page", ResourceVersion: "1"}
		entity.SetOwner(obj, "Site", key, "here")
		pages = append(pages, obj)
	}
	td.Sources = func() []source.Owned { return []source.Owned{lists{s.guardedSource, pages}} }
	none := td.ownerless()
	td.askAboutMissing(t.Context(), &leftOwners{teardown: td, used: map[string]bool{}}, none, elsewhere{})
	if _, asked := none.had["shop/gone"]; !asked || none.asked != 1 {
		t.Errorf("of two owners it has asked about %v", none.had)
	}
}

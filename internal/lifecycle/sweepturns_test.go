package lifecycle

import (
	"fmt"
	"testing"

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

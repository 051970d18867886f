package brake

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// mostOfBrake is what a brake may say, in bytes: with what its replica says beside it is less than a member may.
const mostOfBrake = 200 << 10

// TestWhatABrakeSaysFitsAMessage, however much there is to ask and to tell, and however long the keys are; and of what is
// asked or told, as much as fits.
func TestWhatABrakeSaysFitsAMessage(t *testing.T) {
	for _, length := range []int{10, 100, 3000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			all := sets.New[string]()
			for i := range 5000 {
				all.Insert(fmt.Sprint(strings.Repeat("k", length-4), 1000+i))
			}
			b := New(Config{Shared: true, Primaries: unchanged{}})
			b.suspects, b.prunes.suspects = all, all
			b.follow.agedOut, b.follow.back = all, all
			fits(t, "it asks", b.Asks(func(string) bool { return true }))
			b.running, b.allowed = true, all
			b.follow.aged, b.follow.asked, b.follow.free = all, all, sets.List(all)
			b.prunes.allowed = map[string]bool{}
			for key := range all {
				b.prunes.allowed[key] = true
			}
			told, ok := b.Tells(7)
			if !ok || told.Whole || len(told.Prunes) == 0 || len(told.Swept) == 0 {
				t.Errorf("it tells of %d prunes and %d owners, whole: %v", len(told.Prunes), len(told.Swept), told.Whole)
			}
			fits(t, "it tells", told)
		})
	}
}

// unchanged are primaries whose stream is the one that was known.
type unchanged struct{ Primaries }

func (unchanged) Stream() Stream { return Stream{} }

func fits(t *testing.T, what string, says any) {
	t.Helper()
	data, err := json.Marshal(says)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > mostOfBrake || len(data) < 10_000 {
		t.Errorf("%s %d bytes", what, len(data))
	}
}

package lifecycle

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// recorded are records of which only is known that they are there.
type recorded struct {
	Records
	keys map[string]bool
}

func (r recorded) Exists(key string) bool { return r.keys[key] }

// TestAnEndIsOfWhoMetTheKey: a replica beside the leader follows its teardown, one that leads tears down itself, unless
// the record is gone that would say so.
func TestAnEndIsOfWhoMetTheKey(t *testing.T) {
	went := keytable.State{Met: true, RecordWent: true}
	owed, lost := went, went
	owed.Owed, lost.DeletedAnchor = true, &entity.Record{}
	for name, test := range map[string]struct {
		state     keytable.State
		recorded  bool
		elsewhere [2]bool // to the leader, and beside it
		beside    Verdict // instead of a call of the reconciler, if it is not called
	}{
		"torn down elsewhere":        {went, false, [2]bool{true, true}, 0},
		"gone, and not told how":     {keytable.State{Met: true}, false, [2]bool{}, NotReconciled},
		"not torn down yet":          {went, true, [2]bool{}, NotReconciled},
		"never met":                  {keytable.State{}, false, [2]bool{}, NothingOwed},
		"never met, not yet":         {keytable.State{}, true, [2]bool{}, NotReconciled},
		"torn down here, to its end": {owed, false, [2]bool{false, true}, 0},
		"its record deleted by hand": {lost, false, [2]bool{false, true}, 0},
		"and put back by the leader": {lost, true, [2]bool{}, NotReconciled},
	} {
		t.Run(name, func(t *testing.T) {
			var keys keytable.Table
			keys.Change("home", func(s *keytable.State) { *s = test.state })
			s := NewSharedLife(&RecordedLife{Keys: &keys, Records: recorded{keys: map[string]bool{"home": test.recorded}}})
			for i, term := range []*Term{{}, {Beside: true}} {
				if s.tornDownElsewhere(term, "home") != test.elsewhere[i] {
					t.Errorf("beside %v: torn down elsewhere is %v", term.Beside, !test.elsewhere[i])
				}
			}
			_, instead := s.Absent(&Term{Beside: true}, queue.Item{Key: "home"})
			if called := instead == nil; called != test.elsewhere[1] || !called && instead.Verdict != test.beside {
				t.Errorf("beside the leader it is called: %v, instead %+v", called, instead)
			}
		})
	}
}

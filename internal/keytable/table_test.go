package keytable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fail counts one more failure of a key, and returns the count.
func fail(keys *Table, key string) (failures int) {
	keys.Change(key, func(s *State) {
		s.Failures++
		failures = s.Failures
	})
	return failures
}

func TestFailuresCountUntilTheyAreReset(t *testing.T) {
	t.Parallel()
	var keys Table
	for want := 1; want <= 3; want++ {
		if got := fail(&keys, "a"); got != want || keys.Of("a").Failures != want {
			t.Fatalf("failure %d counts as %d, %d", want, got, keys.Of("a").Failures)
		}
	}
	if keys.Of("b").Failures != 0 {
		t.Error("one key's failures count for another")
	}
	keys.ResetFailures("a")
	if keys.Of("a").Failures != 0 || fail(&keys, "a") != 1 {
		t.Error("the reset did not forget the failures")
	}
}

func TestOnlyKeysThatFailTakeMemory(t *testing.T) {
	t.Parallel()
	var keys Table
	for i := range 1000 {
		key := fmt.Sprint(i)
		fail(&keys, key)
		keys.Of(key + "-fine")
		keys.ResetFailures(key + "-fine")
		if i > 0 {
			keys.ResetFailures(key)
		}
	}
	if failing, _, _ := keys.Counts(); failing != 1 || keys.Len() != 1 || len(keys.byKey) != 1 {
		t.Errorf("%d keys fail, and %d are held; want the one that fails", failing, len(keys.byKey))
	}
}

// TestAStateThatBecomesZeroIsDropped, whichever way it became so.
func TestAStateThatBecomesZeroIsDropped(t *testing.T) {
	t.Parallel()
	object := &metav1.ObjectMeta{}
	log := &ownwrites.Log{}
	log.Add(nil, "", ownwrites.Polled(func() bool { return false }))
	states := map[string]func(*State){
		"failures":        func(s *State) { s.Failures = 1 },
		"record failures": func(s *State) { s.RecordFailures = 1 },
		"refusals":        func(s *State) { s.Refusals = 1 },
		"parked":          func(s *State) { s.Parked = &Parked{Presence: source.Present, Object: object} },
		"deleted":         func(s *State) { s.Deleted = &ObservedDelete{Object: object} },
		"deleted anchor":  func(s *State) { s.DeletedAnchor = &entity.Record{} },
		"decodable":       func(s *State) { s.NewlyDecodable = true },
		"cleanup":         func(s *State) { s.CleanUp = NewCleanUp(nil) },
		"unanswered":      func(s *State) { s.Unanswered = &Unanswered{} },
		"loop":            func(s *State) { s.Loop = &loops.Trail{} },
		"looping":         func(s *State) { s.Looping = true },
		"writes":          func(s *State) { s.writes = log },
	}
	zero := func(s *State) { *s = State{} }
	for by, drop := range map[string]func(*Table, string){
		"Forget": (*Table).Forget,
		"Change": func(keys *Table, key string) { keys.Change(key, zero) },
		"Amend":  func(keys *Table, key string) { keys.Amend(key, zero) },
	} {
		var keys Table
		keys.Change("zero", func(*State) {})
		if n := keys.Len(); n != 0 {
			t.Fatalf("a key whose State is zero is held")
		}
		for key, change := range states {
			keys.Change(key, change)
		}
		if n := keys.Len(); n != len(states) {
			t.Errorf("%d keys are held, want %d", n, len(states))
		}
		for key := range states {
			drop(&keys, key)
		}
		failing, parked, _ := keys.Counts()
		if keys.Len() != 0 || len(keys.byKey) != 0 || failing != 0 || parked != 0 || keys.writing != 0 ||
			keys.Looping() != 0 || keys.Trail("loop") != nil {
			t.Errorf("after %s %d keys are held, %d fail, %d are parked, %d have writes",
				by, len(keys.byKey), failing, parked, keys.writing)
		}
	}
}

// TestAmendMakesNoState: a key that has none stays without.
func TestAmendMakesNoState(t *testing.T) {
	t.Parallel()
	var keys Table
	for range 2 { // while the table is empty, and while it is not
		keys.Amend("a", func(s *State) { s.Failures++ })
		if n := keys.Of("a").Failures; n != 0 {
			t.Errorf("%d failures were noted", n)
		}
		fail(&keys, "b")
	}
}

// TestCountsAgreeWithTheStates after each step.
func TestCountsAgreeWithTheStates(t *testing.T) {
	t.Parallel()
	var keys Table
	park := func(s *State) { s.Parked = &Parked{} }
	for i, step := range []func(){
		func() { keys.Change("a", func(s *State) { s.Failures = 1 }) },
		func() { keys.Change("a", func(s *State) { s.Failures = 2 }) },
		func() { keys.Change("b", park) },
		func() { keys.Amend("a", park) },
		func() { keys.Amend("c", park) }, // has no State
		func() { keys.Change("c", func(s *State) { s.Failures, s.Parked = 1, &Parked{} }) },
		func() { keys.Change("c", park) },
		func() { keys.Amend("c", func(s *State) { s.Parked = nil }) },
		func() { keys.ResetFailures("a") },
		func() { keys.ResetFailures("a") },
		func() { keys.Forget("b") },
		func() { keys.Forget("b") },
		func() { keys.Forget("c") },
		func() { keys.Change("a", func(s *State) { s.Parked = nil }) },
	} {
		step()
		failing := len(keys.Where(func(s *State) bool { return s.Failures > 0 }))
		parked := len(keys.Where(func(s *State) bool { return s.Parked != nil }))
		if f, p, _ := keys.Counts(); f != failing || p != parked {
			t.Errorf("after step %d: %d fail and %d are parked; counted: %d and %d", i, failing, parked, f, p)
		}
		if held := keys.Where(func(*State) bool { return true }); keys.Len() != len(held) {
			t.Errorf("after step %d: the length is %d, but %v are held", i, keys.Len(),
				slices.Sorted(slices.Values(held)))
		}
	}
	if keys.Len() != 0 {
		t.Errorf("%d keys are held in the end", keys.Len())
	}
}

// TestAKeyStaysParkedUntilSomethingHappens: time alone is nothing that happens.
func TestAKeyStaysParkedUntilSomethingHappens(t *testing.T) {
	t.Parallel()
	object := &metav1.ObjectMeta{Name: "a", ResourceVersion: "7"}
	same := source.View{Presence: source.Present, Revision: 7, Object: object}
	other := same
	other.Object = &metav1.ObjectMeta{Name: "a", ResourceVersion: "7"} // of a stream that was recreated
	absent := source.View{Presence: source.Absent, Revision: 7, Object: object}
	for _, test := range []struct {
		what  string
		view  source.View
		ops   operation.Operations
		stays bool // parked, whenever it is asked for
		rests bool // parked, until the pause after the failure is over
	}{
		{"no operation", same, 0, true, true},
		{"a put of the state that failed", same, operation.Of(operation.Put), true, true},
		{"a resync", same, operation.Of(operation.Resync), true, true},
		{"a retry", same, operation.Of(operation.Retry), true, true},
		{"a requeue", same, operation.Of(operation.Requeue), true, true},
		{"a resync by hand", same, operation.Of(operation.Resync) | operation.ByHand, true, true},
		{"a change of a secondary", same, operation.Of(operation.Secondary), false, true},
		{"a change of a tertiary", same, operation.Of(operation.Tertiary), false, true},
		{"drift behind an API", same, operation.Of(operation.External), false, true},
		{"a handler of secondaries", same, operation.Of(operation.Secondary) | operation.ByHand, false, true},
		{"a manual operation", same, operation.Of(operation.Manual), false, false},
		{"a put by hand", same, operation.Of(operation.Put) | operation.ByHand, false, false},
		{"a delete by hand", same, operation.Of(operation.Delete) | operation.ByHand, false, false},
		{"another object", other, operation.Of(operation.Resync), false, false},
		{"its absence", absent, operation.Of(operation.Resync), false, false},
	} {
		for _, pause := range []time.Duration{0, time.Hour} {
			var keys Table
			if stays, _ := keys.StaysParked("a", test.view, test.ops); stays {
				t.Error("a key is parked that never was")
			}
			keys.Change("a", func(s *State) {
				s.Parked = &Parked{Presence: same.Presence, Object: same.Object, RestsUntil: time.Now().Add(pause)}
			})
			want := test.stays || pause > 0 && test.rests
			for range 2 { // what woke once is not parked again
				state := keys.Of("a")
				if would := state.WouldStayParked(test.view, test.ops); would != want {
					t.Errorf("with %s, %v after the failure, it would stay parked: %v, want %v",
						test.what, pause, would, want)
				}
				stays, again := keys.StaysParked("a", test.view, test.ops)
				if stays != want || (again > 0) != (want && !test.stays) || again > pause {
					t.Errorf("with %s, %v after the failure, it stays parked: %v, for %v; want %v",
						test.what, pause, stays, again, want)
				}
			}
			if _, parked, _ := keys.Counts(); parked == 1 != want || keys.Len() == 1 != want {
				t.Errorf("with %s %d keys are parked, and %d are held", test.what, parked, keys.Len())
			}
		}
	}
}

// TestATeardownThatAnotherReplicaHasEndedIsForgotten, and nothing else of the key.
func TestATeardownThatAnotherReplicaHasEndedIsForgotten(t *testing.T) {
	var keys Table
	begun := func(s *State) {
		s.Deleted, s.DeletedAnchor, s.CleanUp = &ObservedDelete{}, &entity.Record{}, NewCleanUp(nil)
		s.Owed, s.ContestedFrom = true, 7
	}
	keys.Change("gone", begun)
	keys.Change("fails", begun)
	keys.Change("fails", func(s *State) { s.RecordFailures = 2 })
	keys.ForgetTeardown("gone")
	keys.ForgetTeardown("fails")
	if n := keys.Len(); n != 1 {
		t.Errorf("something is remembered of %d keys, want 1: %+v", n, keys.Of("gone"))
	}
	if s := keys.Of("fails"); s.RecordFailures != 2 || s.Owed || s.ContestedFrom != 0 {
		t.Errorf("it is %+v, want its failures only", s)
	}
}

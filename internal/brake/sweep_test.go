package brake_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
)

// orphans are n secondaries of a missing owner, and all that there are in the source.
func orphans(n int, owner string) brake.Orphans { return among(n, n, owner) }

// among are n secondaries of a missing owner, of so many in the source.
func among(known, n int, owner string) brake.Orphans {
	return brake.Orphans{Source: "Owns Page", Owners: map[string]int{owner: n}, Count: n, Known: known}
}

func TestASweepIsHeldIfMoreThanHalfAndAtLeastTenOfASourceWouldGo(t *testing.T) {
	for _, tt := range []struct {
		known, found int
		held         bool
	}{
		{known: 9, found: 9},
		{known: 10, found: 10, held: true},
		{known: 20, found: 10},
		{known: 20, found: 11, held: true},
	} {
		run(t, 20, func(t *testing.T, w *world) {
			free := w.sweep(among(1000, 1, "other"), among(tt.known, tt.found, "gone"))
			state := w.b.State()
			passed := slices.Contains(free, "gone")
			if tt.held != state.Engaged || tt.held != w.b.HoldsOrphans("gone") || tt.held == passed {
				t.Errorf("%d of %d: free %v, %+v", tt.found, tt.known, free, state)
			}
			says := strings.Contains(state.Reason, "of Owns Page, whose owners do not exist")
			if tt.held && (state.Swept != 2 || len(free) > 0 || state.Held != 0 || !says) {
				t.Errorf("%d of %d: %+v, want all that the sweep found held", tt.found, tt.known, state)
			}
		})
	}
}

func TestSweepsWithinTheWindowCountTogether(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		if free := w.sweep(among(19, 9, "first")); len(free) != 1 {
			t.Fatalf("free %v", free)
		}
		w.sweep()
		time.Sleep(w.window - time.Minute)
		if free := w.sweep(among(19, 9, "second")); len(free) > 0 || !w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

func TestSweepsBeforeTheWindowDoNotCount(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(among(19, 9, "first"))
		time.Sleep(w.window + time.Second)
		if free := w.sweep(among(19, 9, "second")); len(free) != 1 || w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestSweepsOfAnotherSourceDoNotCount: each source counts for itself.
func TestSweepsOfAnotherSourceDoNotCount(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(among(19, 9, "first"))
		other := among(19, 9, "second")
		other.Source = "Owns Disk"
		if free := w.sweep(other); len(free) != 1 {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
	})
}

// TestWhatIsLeftOfAnOwnerCountsOnce, however many sweeps find it.
func TestWhatIsLeftOfAnOwnerCountsOnce(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		for n := 9; n > 0; n-- {
			if free := w.sweep(among(10+n, n, "gone")); len(free) != 1 {
				t.Fatalf("%d are left: free %v, %+v", n, free, w.b.State())
			}
		}
	})
}

func TestWhatASweepHoldsGoesAfterARelease(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(orphans(20, "gone"))
		w.release()
		synctest.Wait()
		want := due{"gone", operation.Of(operation.Delete) | operation.ByHand, queue.Secondary}
		if len(w.due) != 1 || w.due[0] != want {
			t.Errorf("due %+v", w.due)
		}
		if w.b.HoldsOrphans("gone") {
			t.Error("still held")
		}
		// The clean-up takes a while, and the next sweeps find what is left.
		for n := 15; n > 10; n-- {
			if free := w.sweep(orphans(n, "gone")); len(free) != 1 {
				t.Fatalf("%d are left: free %v, %+v", n, free, w.b.State())
			}
		}
		if !w.b.State().Released {
			t.Error("the release is over too early")
		}
		w.sweep()
		w.settle()
		if state := w.b.State(); state.Released || w.has(record.KeyBrake) {
			t.Errorf("%+v, kept: %v; want the release over", state, w.has(record.KeyBrake))
		}
		if free := w.sweep(orphans(20, "gone")); len(free) > 0 {
			t.Errorf("%v passes under the old release", free)
		}
	})
}

// TestWhatASweepHoldsIsWhatTheLastOneFound.
func TestWhatASweepHoldsIsWhatTheLastOneFound(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(orphans(20, "gone"))
		w.sweep(orphans(5, "other")) // few, but the brake is engaged
		if w.b.HoldsOrphans("gone") || !w.b.HoldsOrphans("other") || w.b.State().Swept != 1 {
			t.Errorf("%+v", w.b.State())
		}
		w.sweep()
		w.settle()
		if state := w.b.State(); state.Engaged {
			t.Errorf("%+v, want the brake off: nothing is held", state)
		}
	})
}

func TestOrphansStayHeldWhenTheyChangeAndNotWhenTheirOwnerComesBack(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(orphans(20, name(0)))
		w.work(due{key: name(0)}) // as a change of one has it
		w.settle()
		if !w.b.HoldsOrphans(name(0)) {
			t.Error("not held any more")
		}
		w.put(0, 1)
		w.settle()
		if state := w.b.State(); state.Engaged || w.b.HoldsOrphans(name(0)) {
			t.Errorf("%+v with the owner back", state)
		}
	})
}

func TestASweepHoldsAcrossRestarts(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		w.sweep(orphans(20, "gone"))
		w.halt()
		w.begin()
		w.settle()
		if state := w.b.State(); !state.Engaged {
			t.Fatalf("%+v before the first sweep", state)
		}
		if free := w.sweep(among(1000, 20, "gone")); len(free) > 0 {
			t.Errorf("free %v", free)
		}
		if n := w.engaged(); n != 1 {
			t.Errorf("engaged %d times", n)
		}
	})
}

// TestInAnotherStreamOneOrphanIsHeld, because its owner may be missing only there.
func TestInAnotherStreamOneOrphanIsHeld(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(0, 20)
		if free := w.sweep(among(1000, 1, "gone")); len(free) > 0 {
			t.Errorf("free %v", free)
		}
		state := w.b.State()
		if !state.Engaged || !strings.Contains(state.Reason, "1 objects of Owns Page would be swept") {
			t.Errorf("%+v", state)
		}
	})
}

// TestAnOutdatedSourceLetsNothingGoAndNothingLoose: its orphans are not swept, not counted, and what the brake holds or
// was released of them stays so until the source is no longer outdated.
func TestAnOutdatedSourceLetsNothingGoAndNothingLoose(t *testing.T) {
	old := func(o brake.Orphans) brake.Orphans {
		o.Outdated = true
		return o
	}
	run(t, 0, func(t *testing.T, w *world) {
		if free := w.sweep(old(orphans(20, "gone"))); len(free) > 0 || w.b.State().Engaged {
			t.Errorf("free %v, %+v", free, w.b.State())
		}
		other := among(100, 1, "gone")
		other.Source = "Owns Image"
		if free := w.sweep(old(orphans(20, "gone")), other); !slices.Equal(free, []string{"gone"}) {
			t.Errorf("free %v, want the owner that another source shows", free)
		}
		w.sweep(orphans(20, "held"))
		w.sweep(old(orphans(20, "held")))
		synctest.Wait()
		if state := w.b.State(); !state.Engaged || !w.b.HoldsOrphans("held") {
			t.Errorf("%+v: what is held has come loose", state)
		}
		if err := w.b.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if free := w.sweep(old(orphans(20, "held"))); len(free) > 0 {
			t.Errorf("free %v", free)
		}
		if free := w.sweep(orphans(20, "held")); len(free) != 1 || w.b.State().Engaged {
			t.Errorf("the release is forgotten: free %v, %+v", free, w.b.State())
		}
	})
}

// TestWhatComesBackAfterSweepsCountsEachTime: two installations that take each other's objects for garbage fight about
// them, and each sweep finds few.
func TestWhatComesBackAfterSweepsCountsEachTime(t *testing.T) {
	run(t, 0, func(t *testing.T, w *world) {
		all := brake.Orphans{Source: "Owns Page", Owners: map[string]int{}, Count: 9, Known: 9}
		for i := range 9 {
			all.Owners[name(i)] = 1
		}
		if free := w.sweep(all); len(free) != 9 {
			t.Fatalf("free %v, %+v", free, w.b.State())
		}
		deleted := 0
		for version := range 100 {
			for i := range 9 {
				for range 3 { // the same one may be tried again
					if w.b.AdmitSwept(quiet(t), name(i), "Owns Page", "page of "+name(i), strings.Repeat("x", version)) {
						deleted++
					}
				}
			}
		}
		w.settle()
		state := w.b.State()
		if deleted != 9*3 || !state.Engaged || !strings.Contains(state.Reason, "come back") || !w.b.HoldsOrphans(name(0)) {
			t.Errorf("%d deletes, %+v", deleted, state)
		}
		w.sweep(all)
		w.ask(w.request())
		w.settle()
		if w.b.State().Engaged || !w.b.AdmitSwept(quiet(t), name(0), "Owns Page", "page of "+name(0), "new") {
			t.Errorf("after the release: %+v", w.b.State())
		}
	})
}

package brake_test

import (
	"encoding/json"
	"fmt"
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

// follower is a brake that does not run, beside that of the world, which does.
type follower struct {
	*world
	b    *brake.Brake
	due  []due
	term uint64
	gone string // a key that is another replica's by now
}

func (f *follower) mine(key string) bool { return key != f.gone }

// lease is that of the replica whose brake runs.
const lease = 15 * time.Second

// follow has a world with n documents, and a follower. The first sweep found nothing.
func follow(t *testing.T, n int, test func(t *testing.T, f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n)
		w.shared = true
		w.begin()
		w.sweep()
		f := &follower{world: w, term: 1}
		f.b = brake.New(brake.Config{
			Primaries: (*primaries)(w), Anchors: (*anchors)(w), Window: w.window, Shared: true, Board: w.board,
			Lease:  lease,
			Bucket: record.NewBucket((*store)(w), "sites-status", w.board),
			Enqueue: func(key string, ops operation.Operations, prio queue.Priority) {
				f.due = append(f.due, due{key, ops, prio})
			},
		})
		test(t, f)
		w.halt()
	})
}

// talk has each hear the other, twice, with time between for a decision.
func (f *follower) talk() {
	for range 2 {
		f.world.b.Asked([]brake.Asks{f.b.Asks(f.mine)})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if told, ok := f.world.b.Tells(f.term); ok {
			f.b.Follow(told)
		}
	}
}

// wantDue fails unless these keys became due.
func (f *follower) wantDue(ops operation.Operations, keys ...string) {
	f.t.Helper()
	var got []string
	for _, d := range f.due {
		if d.ops == ops {
			got = append(got, d.key)
		}
	}
	if slices.Sort(got); !slices.Equal(got, keys) {
		f.t.Errorf("due are %v, want %v", got, keys)
	}
	f.due = nil
}

func TestAFollowerWaitsForTheOneThatJudges(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.change(func() { delete(f.docs, name(3)) })
		if f.b.Admit(name(3)) {
			t.Error("it lets a delete go by itself")
		}
		time.Sleep(time.Minute)
		if f.b.Admit(name(3)) {
			t.Error("it lets a delete go after a minute")
		}
		f.talk()
		f.wantDue(operation.Owed, name(3))
		if !f.b.Admit(name(3)) {
			t.Error("it does not let go what it was told")
		}
		f.b.Forget(name(3))
		f.talk()
		f.talk()
		f.wantDue(operation.Owed, name(3)) // it is told until the one that judges knows that it was torn down
		f.change(func() { delete(f.anchors, name(3)) })
		f.world.b.WentElsewhere(name(3))
		f.talk()
		f.due = nil
		f.talk()
		f.wantDue(operation.Owed)
	})
}

func TestAFollowerHoldsWhatTheOneThatJudgesHolds(t *testing.T) {
	follow(t, 20, func(t *testing.T, f *follower) {
		f.lose(names(0, 20)...)
		f.b.Admit(name(3))
		f.talk()
		if state := f.b.State(); !state.Engaged || state.Held != 1 || !f.b.Holds(name(3)) || f.b.Admit(name(3)) {
			t.Errorf("it is %+v", state)
		}
		f.wantDue(operation.Owed)
		f.release()
		f.talk()
		if state := f.b.State(); state.Engaged || !f.b.Admit(name(3)) {
			t.Errorf("after the release it is %+v", state)
		}
		if len(f.due) != 20 {
			t.Errorf("due are %v", f.due)
		}
	})
}

// TestWhatTheNextOneThatJudgesDoesNotLetGoStays, although the one before did.
func TestWhatTheNextOneThatJudgesDoesNotLetGoStays(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.change(func() { delete(f.docs, name(3)) })
		f.b.Admit(name(3))
		f.talk()
		before, _ := f.world.b.Tells(f.term)
		f.term++
		f.b.Follow(brake.Told{Term: f.term, Whole: true, State: brake.State{Engaged: true}})
		if f.b.Admit(name(3)) {
			t.Error("it lets go what the one before let go")
		}
		f.b.Follow(before)
		if f.b.Admit(name(3)) || !f.b.State().Engaged {
			t.Error("it follows the one before again")
		}
	})
}

// TestATermOfAnotherStreamIsForgotten: a replica that leads may tell of its term in a status bucket that was made anew,
// before it notices. Terms of that one have lower numbers.
func TestATermOfAnotherStreamIsForgotten(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.b.Follow(brake.Told{Term: f.term + 800, Whole: true, State: brake.State{Engaged: true}})
		f.change(func() { delete(f.docs, name(3)) })
		f.b.Admit(name(3))
		f.talk()
		told, _ := f.world.b.Tells(f.term)
		heard := 5 * time.Second // since talk told it first
		for ; heard <= lease && f.b.Follow(told); heard += time.Second {
			if f.b.Admit(name(3)) {
				t.Fatalf("it follows an earlier term after %v", heard)
			}
			time.Sleep(time.Second)
		}
		if heard != lease || !f.b.Admit(name(3)) {
			t.Errorf("it follows after %v, and lets go %v", heard, f.b.Admit(name(3)))
		}
	})
}

func TestAFollowerAsksWhatItMayPrune(t *testing.T) {
	follow(t, 20, func(t *testing.T, f *follower) {
		if f.b.AdmitPrune(name(3), "") {
			t.Error("it prunes by itself")
		}
		f.talk()
		f.wantDue(operation.Of(operation.Resync), name(3))
		if !f.b.AdmitPrune(name(3), "") {
			t.Error("it does not prune what it was told")
		}
		f.b.ForgetPrune(name(3))
		f.talk()
		if f.b.AdmitPrune(name(3), "") {
			t.Error("it prunes anew, unasked")
		}
		f.talk()
		f.due = nil

		f.b.AdmitPrune(name(4), "a doubt")
		f.talk()
		f.wantEngaged(1, "a doubt")
		if f.b.AdmitPrune(name(4), "a doubt") || !f.b.HoldsPrune(name(4)) || !f.b.State().Engaged {
			t.Error("it does not hold what is held")
		}
		f.release()
		f.talk()
		f.wantDue(operation.Of(operation.Resync), name(4))
		if !f.b.AdmitPrune(name(4), "a doubt") {
			t.Error("it holds what was released")
		}
	})
}

// TestAFollowerTellsWhatHasAgedOut, which the one that judges did not see.
func TestAFollowerTellsWhatHasAgedOut(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.change(func() { delete(f.docs, name(3)) })
		f.b.Admit(name(3))
		f.talk()
		f.change(func() { f.expired[name(3)] = true })
		if !f.b.Reconsider(name(3)) {
			t.Fatal("it goes on")
		}
		f.talk()
		if f.b.Admit(name(3)) || !f.b.State().Engaged || !f.world.b.State().Engaged {
			t.Errorf("the brake is %+v, and here %+v", f.world.b.State(), f.b.State())
		}
	})
}

// TestAFollowerIsToldOfManyOneAfterTheOther.
func TestAFollowerIsToldOfManyOneAfterTheOther(t *testing.T) {
	const n = 1200
	follow(t, n, func(t *testing.T, f *follower) {
		f.lose(names(0, n)...)
		f.talk()
		f.release()
		for rounds := 0; len(f.tornDown) < n; rounds++ {
			if rounds > 4 {
				t.Fatalf("%d are torn down", len(f.tornDown))
			}
			f.due = nil
			f.talk()
			for _, d := range f.due {
				if !f.b.Admit(d.key) || f.anchors[d.key] == (brake.Anchor{}) {
					continue
				}
				f.change(func() { delete(f.anchors, d.key); f.tornDown = append(f.tornDown, d.key) })
				f.b.Forget(d.key)
				f.world.b.WentElsewhere(d.key)
			}
		}
	})
}

// TestAFollowerSweepsWhatTheOneThatJudgesFound, once for each sweep.
func TestAFollowerSweepsWhatTheOneThatJudgesFound(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.talk()
		found := brake.Orphans{Source: "pages", Owners: map[string]int{"gone": 1}, Count: 1, Known: 40}
		f.sweep(found)
		f.talk()
		f.wantDue(operation.Swept, "gone")
		f.talk()
		f.wantDue(operation.Swept)
		f.sweep(found)
		f.talk()
		f.wantDue(operation.Swept, "gone")
		if !f.b.WasLetGo("gone") || f.b.WasLetGo("another") {
			t.Error("it does not know what was let go")
		}
	})
}

// TestAnAgedOutKeyIsNotLetGoByWhatWasSaidBefore that was known.
func TestAnAgedOutKeyIsNotLetGoByWhatWasSaidBefore(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.change(func() { delete(f.docs, name(3)) })
		f.b.Admit(name(3))
		f.talk()
		before, _ := f.world.b.Tells(f.term)
		f.change(func() { f.expired[name(3)] = true })
		f.b.Reconsider(name(3))
		f.due = nil
		f.b.Follow(before)
		if f.wantDue(operation.Owed); f.b.Admit(name(3)) {
			t.Error("it is let go")
		}
		f.talk()
		f.release()
		f.talk()
		if f.wantDue(operation.Owed, name(3)); !f.b.Admit(name(3)) {
			t.Error("it is not let go by a release")
		}
	})
}

// TestWhatComesBackAtAFollowerEngagesTheBrake: each counts what it deletes because of a sweep.
func TestWhatComesBackAtAFollowerEngagesTheBrake(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		found := brake.Orphans{Source: "pages", Owners: map[string]int{"gone": 1}, Count: 1, Known: 40}
		f.sweep(found)
		f.talk()
		deletes := 0
		for f.b.AdmitSwept(t.Context(), "gone", "pages", "page", fmt.Sprint(deletes)) {
			if deletes++; deletes > 20 {
				t.Fatal("it deletes what comes back again and again")
			}
		}
		f.talk()
		if state := f.b.State(); !f.world.b.State().Engaged || !state.Engaged || !strings.Contains(state.Reason, "come back") {
			t.Errorf("the brake is %+v, and here %+v", f.world.b.State(), state)
		}
		if f.b.AdmitSwept(t.Context(), "gone", "pages", "page", "next") || !f.b.HoldsOrphans("gone") {
			t.Error("it deletes while the brake is engaged")
		}
		f.sweep(found)
		f.release()
		f.talk()
		if !f.b.AdmitSwept(t.Context(), "gone", "pages", "page", "next") || f.b.HoldsOrphans("gone") {
			t.Error("it holds what was released")
		}
		f.talk()
		if f.world.b.State().Engaged {
			t.Errorf("it engages again: %+v", f.world.b.State())
		}
	})
}

// TestWhatIsSaidFitsIntoAMessage, however long the keys are.
func TestWhatIsSaidFitsIntoAMessage(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		long := strings.Repeat("x", 1000)
		for i := range 400 {
			f.b.AdmitPrune(fmt.Sprint(long, i), "")
		}
		said, err := json.Marshal(f.b.Asks(f.mine))
		if err != nil || len(said) > 64<<10 || len(said) < 32<<10 {
			t.Errorf("%d bytes are said: %v", len(said), err)
		}
	})
}

// TestAFollowerDoesNotAskToPruneWhatIsOfAnotherReplicaByNow: that one asks.
func TestAFollowerDoesNotAskToPruneWhatIsOfAnotherReplicaByNow(t *testing.T) {
	follow(t, 40, func(t *testing.T, f *follower) {
		f.b.AdmitPrune(name(3), "a doubt")
		f.talk()
		f.wantEngaged(1, "a doubt")
		f.gone = name(3)
		f.release()
		f.world.b.ForgetPrune(name(3)) // it has been done, where the key is
		f.talk()
		f.talk()
		if f.world.b.State().Engaged || f.b.HoldsPrune(name(3)) {
			t.Errorf("the brake is %+v", f.world.b.State())
		}
	})
}

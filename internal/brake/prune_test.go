package brake_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
)

// unwant has reconciles say that primaries do not want something that they own. doubt is what speaks against its
// delete.
func (w *world) unwant(doubt string, keys ...string) {
	for _, key := range keys {
		w.change(func() {
			if w.unwanted == nil {
				w.unwanted = map[string]string{}
			}
			w.unwanted[key] = doubt
		})
		w.work(due{key: key})
	}
}

// want has them want it again.
func (w *world) want(keys ...string) {
	for _, key := range keys {
		w.change(func() { delete(w.unwanted, key) })
		w.work(due{key: key})
	}
}

// prune does what a reconcile does that has ended.
func (w *world) prune(key string) {
	w.mu.Lock()
	doubt, unwanted := w.unwanted[key]
	w.mu.Unlock()
	if unwanted && w.b.AdmitPrune(key, doubt) {
		w.change(func() {
			delete(w.unwanted, key)
			w.pruned = append(w.pruned, key)
		})
		unwanted = false
	}
	if !unwanted {
		w.b.ForgetPrune(key)
	}
}

func (w *world) wantPruned(keys ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.pruned)
	if !slices.Equal(w.pruned, keys) {
		w.t.Errorf("pruned: %v, want %v", w.pruned, keys)
	}
}

func (w *world) wantEngaged(held int, reason string) {
	w.t.Helper()
	state := w.b.State()
	if !state.Engaged || state.Pruned != held || !strings.Contains(state.Reason, reason) {
		w.t.Errorf("the brake is %+v, want %d held because %s", state, held, reason)
	}
}

func TestWhatFewDoNotWantGoes(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 9)...)
		w.wantPruned()
		w.settle()
		w.wantPruned(names(0, 9)...)
		if state := w.b.State(); state.Engaged {
			t.Errorf("the brake is %+v", state)
		}
	})
}

func TestWhatMostDoNotWantWaitsForARelease(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 12)...)
		w.settle()
		w.wantEngaged(12, "12 of 20 primaries do not want any more what they own")
		w.want(name(0))
		w.settle()
		w.wantEngaged(11, "")
		w.wantPruned()
		w.release()
		w.settle()
		w.wantPruned(names(1, 12)...)
		if state := w.b.State(); state.Engaged || state.Released || state.Pruned != 0 {
			t.Errorf("after the release the brake is %+v", state)
		}
		// The release was for those that were held.
		w.unwant("", names(0, 12)...)
		w.settle()
		w.wantEngaged(12, "")
	})
}

func TestWhatManyDoNotWantOneByOneIsCountedTogether(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		for _, key := range names(0, 15) {
			w.unwant("", key)
			w.settle()
		}
		w.wantPruned(names(0, 10)...)
		w.wantEngaged(5, "11 of 20 primaries")
	})
}

// TestABacklogIsJudgedAsAWhole, since one by one half of it would be gone before the brake engages.
func TestABacklogIsJudgedAsAWhole(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.change(func() { w.backlog = true })
		for _, key := range names(0, 15) {
			w.unwant("", key)
			time.Sleep(10 * time.Second)
		}
		w.wantPruned()
		w.change(func() { w.backlog = false })
		w.settle()
		w.wantPruned()
		w.wantEngaged(15, "15 of 20 primaries")
	})
}

func TestABacklogWithoutAnEndIsJudgedAfterTheWindow(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.change(func() { w.backlog = true })
		w.unwant("", name(0))
		time.Sleep(w.window + time.Minute)
		w.settle()
		w.wantPruned(name(0))
	})
}

func TestWhatIsDoubtedWaitsForARelease(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", name(0))
		w.unwant("it was written later", name(1))
		w.settle()
		w.wantPruned()
		w.wantEngaged(2, "it was written later")
		w.release()
		w.settle()
		w.wantPruned(names(0, 2)...)
	})
}

func TestNothingIsPrunedWhileTheStreamIsAnother(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.recreate(0, 20)
		w.unwant("", name(0))
		w.settle()
		w.wantPruned()
		w.wantEngaged(1, "the stream of the bucket is not the one that was known")
	})
}

func TestABrakeThatHoldsPrunesOnlyDisengagesWhenAllIsWanted(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 12)...)
		w.settle()
		w.want(names(0, 11)...)
		w.delete(name(11))
		w.work(due{key: name(11)}) // it is torn down
		w.settle()
		if state := w.b.State(); state.Engaged || state.Pruned != 0 {
			t.Errorf("the brake is %+v", state)
		}
		w.wantPruned()
	})
}

// TestAHeldPruneIsHeldAfterARestart: the next term finds it anew.
func TestAHeldPruneIsHeldAfterARestart(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 12)...)
		w.settle()
		w.halt()
		w.begin()
		for _, key := range names(0, 12) {
			w.work(due{key: key})
		}
		w.sweep()
		w.settle()
		w.wantPruned()
		w.wantEngaged(12, "")
	})
}

// TestWhatIsHeldOnlyBecauseTheBrakeWasEngagedGoesAfterIt, without a release.
func TestWhatIsHeldOnlyBecauseTheBrakeWasEngagedGoesAfterIt(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 12)...)
		w.settle()
		w.unwant("", names(15, 17)...)
		w.settle()
		w.wantPruned()
		w.wantEngaged(2, "12 of 20 primaries vanished")
		w.put(0, 12)
		w.settle()
		w.wantPruned(names(15, 17)...)
		if state := w.b.State(); state.Engaged || state.Pruned != 0 {
			t.Errorf("the brake is %+v", state)
		}
	})
}

// TestAReleaseIsNotChangedByWhatWorkersDo: they take up what it has let go while it makes the rest due.
func TestAReleaseIsNotChangedByWhatWorkersDo(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 12)...)
		w.settle()
		w.wantEngaged(12, "")
		w.change(func() {
			w.onTell = func(brake.State) { w.b.ForgetPrune(name(3)) }
			w.due = nil
		})
		w.release()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.ContainsFunc(w.due, func(d due) bool { return d.key == name(3) }) {
			t.Errorf("%s is not made due, only %v", name(3), w.due)
		}
	})
}

// TestPrunesCountInTheNextTermOfTheProcess, as deletes do: the lease was lost for a moment.
func TestPrunesCountInTheNextTermOfTheProcess(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", names(0, 9)...)
		w.settle()
		w.wantPruned(names(0, 9)...)
		b := w.b
		w.halt()
		w.lead(b)
		w.sweep()
		w.unwant("", names(9, 18)...)
		w.settle()
		w.wantPruned(names(0, 9)...)
		w.wantEngaged(9, "18 of 20 primaries do not want any more what they own")
		// A release begins the window anew, and so it does where the term has ended meanwhile.
		w.release()
		w.settle()
		w.wantPruned(names(0, 18)...)
		w.halt()
		w.lead(b)
		w.sweep()
		w.unwant("", names(0, 9)...)
		w.settle()
		if state := w.b.State(); state.Engaged {
			t.Errorf("the brake is %+v", state)
		}
	})
}

// TestWhatIsDoubtedLaterIsNotWhatWasLetGo: the brake has let a primary go, and before it is reconciled something else
// is there that it does not want.
func TestWhatIsDoubtedLaterIsNotWhatWasLetGo(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.unwant("", name(0))
		time.Sleep(5 * time.Second) // it is let go, and due
		w.change(func() { w.unwanted[name(0)] = "another wrote it" })
		w.settle()
		w.wantPruned()
		w.wantEngaged(1, "another wrote it")
		w.release()
		w.settle()
		w.wantPruned(name(0))
	})
}

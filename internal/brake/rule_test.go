package brake_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
)

func TestItHoldsMoreThanHalfAndAtLeastTen(t *testing.T) {
	for _, tt := range []struct {
		of, gone int
		engages  bool
	}{
		{of: 9, gone: 9},
		{of: 10, gone: 9},
		{of: 10, gone: 10, engages: true},
		{of: 19, gone: 9},
		{of: 19, gone: 10, engages: true},
		{of: 20, gone: 10},
		{of: 20, gone: 11, engages: true},
		{of: 1000, gone: 500},
		{of: 1000, gone: 501, engages: true},
	} {
		t.Run(fmt.Sprintf("%d of %d", tt.gone, tt.of), func(t *testing.T) {
			run(t, tt.of, func(t *testing.T, w *world) {
				w.lose(names(0, tt.gone)...)
				w.settle()
				if !tt.engages {
					w.wantTornDown(tt.gone)
					return
				}
				state := w.wantHeld(tt.gone)
				want := fmt.Sprintf("%d of %d primaries vanished without a delete being seen within 10m0s",
					tt.gone, tt.of)
				if state.Reason != want || len(w.tornDown) > 0 {
					t.Errorf("reason %q, %d torn down; want %q", state.Reason, len(w.tornDown), want)
				}
			})
		})
	}
}

// TestWhatExpiredByAgeIsHeld, however few: an age limit that was set by mistake takes one after the other.
func TestWhatExpiredByAgeIsHeld(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose("site-00")
		w.settle()
		w.wantTornDown(1)
		w.age("site-01")
		w.settle()
		if state := w.wantHeld(1); !strings.HasPrefix(state.Reason, "1 primaries expired") {
			t.Errorf("reason %q", state.Reason)
		}
	})
}

// TestEvidenceThatComesLateCounts also where the teardowns that it admitted are still under way.
func TestEvidenceThatComesLateCounts(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.loseStuck(names(0, 20)...)
		w.delete(names(0, 20)...)
		w.settle()
		if n := w.engaged(); n != 0 {
			t.Errorf("engaged %d times by deletes that somebody was seen to make", n)
		}
	})
}

// TestWhatSomebodyDeletedIsNotKnownAnyMore also while its teardown goes on: all fifteen that are left vanish.
func TestWhatSomebodyDeletedIsNotKnownAnyMore(t *testing.T) {
	run(t, 40, func(t *testing.T, w *world) {
		w.loseStuck(names(0, 25)...)
		w.delete(names(0, 25)...)
		w.lose(names(25, 40)...)
		w.settle()
		w.wantHeld(15)
	})
}

func TestDeletesThatSomebodyWasSeenToMakeAreNoneOfItsBusiness(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.delete(names(0, 20)...)
		for _, key := range names(0, 20) {
			w.work(due{key: key})
		}
		w.settle()
		w.wantTornDown(20)
	})
}

func TestDeletesWithinTheWindowCountTogether(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 9)...)
		w.settle()
		w.wantTornDown(9)
		time.Sleep(w.window - time.Minute)
		w.lose(names(9, 11)...)
		w.settle()
		if state := w.wantHeld(2); !strings.HasPrefix(state.Reason, "11 of 20 ") {
			t.Errorf("reason %q, want what went before counted", state.Reason)
		}
	})
}

func TestWhatWentBeforeTheWindowDoesNotCount(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 9)...)
		w.settle()
		time.Sleep(w.window)
		w.lose(names(9, 14)...)
		w.settle()
		w.wantTornDown(14)
	})
}

// TestWhatIsStillBeingTornDownCountsAmongTheGone and not among the known, which would take 12 of 20 for 12 of 29.
func TestWhatIsStillBeingTornDownCountsAmongTheGone(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.loseStuck(names(0, 9)...)
		w.settle()
		if n := w.engaged(); n != 0 {
			t.Fatalf("engaged %d times by nine", n)
		}
		w.lose(names(9, 12)...)
		w.settle()
		w.wantHeld(3)
	})
}

// TestWhatIsStillBeingTornDownInTheNextTermCountsOnce: the process has lost its lease for a moment.
func TestWhatIsStillBeingTornDownInTheNextTermCountsOnce(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.loseStuck(names(0, 10)...)
		w.settle()
		b := w.b
		w.halt()
		w.lead(b)
		w.sweep()
		w.settle()
		if n := w.engaged(); n != 0 {
			t.Fatalf("engaged %d times by ten of twenty: %s", n, w.b.State().Reason)
		}
		w.lose(name(10))
		w.settle()
		if state := w.wantHeld(1); !strings.HasPrefix(state.Reason, "11 of 20 ") {
			t.Errorf("reason %q, want each counted once", state.Reason)
		}
	})
}

func TestAnEngagedBrakeHoldsWhateverVanishesLater(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 11)...)
		w.settle()
		w.lose(name(11))
		w.settle()
		w.wantHeld(12)
		if !w.b.Holds(name(11)) || w.b.Holds(name(12)) {
			t.Error("Holds does not say what is held")
		}
		if n := w.engaged(); n != 1 {
			t.Errorf("engaged %d times", n)
		}
	})
}

// TestSuspectsAreCollectedBeforeTheDecision, so that the first of a mass delete do not slip through before the last are
// known.
func TestSuspectsAreCollectedBeforeTheDecision(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		for i := range 11 {
			w.lose(name(i))
			time.Sleep(250 * time.Millisecond)
		}
		synctest.Wait()
		if len(w.due) > 0 || w.engaged() > 0 {
			t.Fatalf("%d are due, engaged %d times: it did not wait for quiet", len(w.due), w.engaged())
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		w.wantHeld(11)
	})
}

func TestItDecidesAfterAWhileThoughSuspectsKeepComing(t *testing.T) {
	run(t, 100, func(t *testing.T, w *world) {
		w.b.Asking()() // long ago, about a key that somebody deleted
		time.Sleep(time.Minute)
		start := time.Now()
		for i := 0; len(w.due) == 0 && i < 100; i++ {
			w.lose(name(i % 5)) // also the same ones again
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took < 3*time.Second || took > 3200*time.Millisecond || len(w.due) != 5 {
			t.Errorf("%d are due after %v, want five after 3 s", len(w.due), took)
		}
	})
}

func TestWhatComesBackBeforeTheDecisionIsNoSuspect(t *testing.T) {
	t.Run("as the brake is told", func(t *testing.T) {
		run(t, 20, func(t *testing.T, w *world) {
			w.lose(names(0, 11)...)
			w.put(0, 2)
			w.settle()
			w.wantTornDown(9)
		})
	})
	t.Run("as the cache shows", func(t *testing.T) {
		run(t, 20, func(t *testing.T, w *world) {
			w.lose(names(0, 11)...)
			w.change(func() { w.docs[name(0)], w.docs[name(1)] = 100, 101 })
			w.settle()
			w.wantTornDown(9)
		})
	})
}

// TestFewAreJudgedWithoutTheAnchors: to count a million of them each time would hold up the workers.
func TestFewAreJudgedWithoutTheAnchors(t *testing.T) {
	run(t, 100, func(t *testing.T, w *world) {
		w.listed = 0
		w.lose(names(0, 9)...)
		w.settle()
		w.wantTornDown(9)
		if w.listed > 0 {
			t.Errorf("the anchors were listed %d times for nine", w.listed)
		}
		w.lose(name(9)) // with the nine within the window
		w.settle()
		if w.listed != 1 {
			t.Errorf("the anchors were listed %d times for ten, want once", w.listed)
		}
	})
}

func TestAKeyWithoutAnAnchorIsNoSuspect(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 11)...)
		w.change(func() {
			delete(w.anchors, name(0))
			delete(w.anchors, name(1))
		})
		w.work(due{key: name(0)})
		w.work(due{key: name(1)})
		w.settle()
		w.wantTornDown(9)
	})
}

// TestItIsLoud: the callback is told once that it engaged, with the state and what to do, the release last, and once
// that it was released.
func TestItIsLoud(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 11)...)
		w.settle()
		w.release()
		w.settle()
		w.wantTornDown(11)
		if len(w.told) != 2 {
			t.Fatalf("told %+v", w.told)
		}
		first := w.told[0]
		last := "what 11 vanished primaries own, such as of "
		command := fmt.Sprintf("ReleaseBrake, or nats kv put %s _nagi.release \"%s 11\"", "sites-status", first.state.Engagement)
		if !first.state.Engaged || first.state.Held != 11 ||
			!strings.HasPrefix(first.message, first.state.Reason+" (engagement "+first.state.Engagement+"). First put back ") ||
			!strings.Contains(first.message, last) || !strings.HasSuffix(first.message, command) {
			t.Errorf("told first %+v", first)
		}
		if second := w.told[1]; second.state.Engaged || !second.state.Released || !strings.HasPrefix(second.message, "11 deletes go on: 11 primaries that are gone,") {
			t.Errorf("told then %+v", second)
		}
	})
}

// TestNothingPassesBeforeTheTermBegins: the worker of a replica that does not lead yet would be held up.
func TestNothingPassesBeforeTheTermBegins(t *testing.T) {
	b := brake.New(brake.Config{Primaries: (*primaries)(newWorld(t, 1))})
	if b.Admit(name(0)) {
		t.Error("admitted")
	}
}

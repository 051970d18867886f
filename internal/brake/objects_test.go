package brake_test

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// owning is a world of so many primaries that own so many objects each.
func owning(t *testing.T, n, objects int, test func(t *testing.T, w *world)) {
	t.Helper()
	run(t, n, func(t *testing.T, w *world) {
		w.objects = map[string]int{}
		for _, key := range names(0, n) {
			w.objects[key] = objects
		}
		test(t, w)
	})
}

// TestFewPrimariesWithManyObjectsAreHeld, if nobody is known to have deleted them.
func TestFewPrimariesWithManyObjectsAreHeld(t *testing.T) {
	for what, tt := range map[string]struct {
		sites, pages, lost, marked int
		held                       bool
	}{
		"all of nine":                {sites: 9, pages: 20, lost: 9, held: true},
		"one of one":                 {sites: 1, pages: 10, lost: 1, held: true},
		"too few objects":            {sites: 9, pages: 1, lost: 9},
		"half of them":               {sites: 8, pages: 20, lost: 4},
		"more than half":             {sites: 8, pages: 20, lost: 5, held: true},
		"somebody deleted all":       {sites: 9, pages: 20, lost: 9, marked: 9},
		"somebody deleted some":      {sites: 9, pages: 20, lost: 9, marked: 5},
		"somebody deleted one":       {sites: 9, pages: 20, lost: 9, marked: 1, held: true},
		"somebody deleted what owns": {sites: 1, pages: 100, lost: 1, marked: 1},
	} {
		t.Run(what, func(t *testing.T) {
			owning(t, tt.sites, tt.pages, func(t *testing.T, w *world) {
				w.change(func() {
					for _, key := range names(0, tt.marked) {
						w.mark(key)
					}
				})
				w.restart(func() { w.lose(names(0, tt.lost)...) })
				w.settle()
				if !tt.held {
					w.wantTornDown(tt.lost)
					return
				}
				if state := w.wantHeld(tt.lost); !strings.Contains(state.Reason, "objects would go") {
					t.Errorf("%+v", state)
				}
				w.ask(w.request())
				w.settle()
				w.wantTornDown(tt.lost)
			})
		})
	}
}

// TestObjectsThatWentWithinTheWindowCount.
func TestObjectsThatWentWithinTheWindowCount(t *testing.T) {
	owning(t, 9, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 4)...)
		w.settle()
		w.wantTornDown(4)
		time.Sleep(time.Minute)
		w.lose(name(4))
		w.settle()
		w.wantHeld(1)
	})
}

// TestObjectsAreHeldWhileTheLeaderDoesNotAnswer whether somebody deleted their owners; it is asked again for a while.
func TestObjectsAreHeldWhileTheLeaderDoesNotAnswer(t *testing.T) {
	for what, answersIn := range map[string]time.Duration{"soon": 10 * time.Second, "late": time.Hour} {
		t.Run(what, func(t *testing.T) {
			owning(t, 9, 20, func(t *testing.T, w *world) {
				w.change(func() {
					w.deaf = errors.New("no answer")
					for _, key := range names(0, 9) {
						w.mark(key)
					}
				})
				w.lose(names(0, 9)...)
				time.Sleep(answersIn)
				w.change(func() { w.deaf = nil })
				w.settle()
				if answersIn < time.Minute {
					w.wantTornDown(9)
				} else if state := w.wantHeld(9); !strings.Contains(state.Reason, "does not answer") {
					t.Errorf("%+v", state)
				}
			})
		})
	}
}

// TestWhatASourceShowsThatComesLateIsWeighed, before the brake has decided, while it decides, and after it has let go
// what waits for that source; but a release covers it.
func TestWhatASourceShowsThatComesLateIsWeighed(t *testing.T) {
	for _, when := range []string{"before", "while", "after"} {
		t.Run(when, func(t *testing.T) {
			owning(t, 3, 0, func(t *testing.T, w *world) {
				show := func() { w.change(func() { w.objects[name(0)] = 20 }) }
				if when == "while" {
					w.onWeigh = func() {
						w.onWeigh = nil
						w.b.CameLate()
						time.AfterFunc(time.Millisecond, show) // what is weighed now does not have it
					}
				}
				w.loseStuck(name(0))
				if when == "before" {
					show()
					w.b.CameLate()
				}
				w.settle()
				if when == "after" {
					if !w.b.LetsGo(name(0)) {
						t.Error("what was let go is in doubt")
					}
					show()
					w.b.CameLate()
					if w.b.LetsGo(name(0)) {
						t.Error("what was weighed without it is not in doubt")
					}
					w.settle()
				}
				w.wantHeld(1)
				w.ask(w.request())
				w.settle()
				w.b.CameLate()
				w.settle()
				if !w.b.LetsGo(name(0)) {
					t.Error("what was released is in doubt")
				}
			})
		})
	}
}

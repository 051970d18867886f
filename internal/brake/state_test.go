package brake_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/record"
)

func TestItHoldsWhatIsOwedAtTheStartOfATerm(t *testing.T) {
	for _, lost := range []int{10, 11} {
		run(t, 20, func(t *testing.T, w *world) {
			w.restart(func() { w.lose(names(0, lost)...) })
			w.settle()
			if lost == 10 {
				w.wantTornDown(10)
			} else {
				w.wantHeld(11)
			}
		})
	}
}

// TestDeletesThatThisReplicaSawAreNotHeldWhenItTakesOver, however many are still owed.
func TestDeletesThatThisReplicaSawAreNotHeldWhenItTakesOver(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.restart(func() { w.delete(names(0, 20)...) })
		w.settle()
		w.wantTornDown(20)
	})
}

// TestItHoldsAcrossRestarts also what, looked at afresh, would be few among many.
func TestItHoldsAcrossRestarts(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		engaged := w.b.State()
		w.put(20, 100)
		for range 2 {
			w.restart(func() {})
			w.settle()
			if state := w.wantHeld(11); !state.Since.Equal(engaged.Since) || state.Reason != engaged.Reason {
				t.Errorf("%+v after a restart, %+v before", state, engaged)
			}
		}
		if n := w.engaged(); n != 1 || len(w.tornDown) > 0 {
			t.Errorf("engaged %d times, torn down %v", n, w.tornDown)
		}
	})
}

func TestTheStateIsKeptAsJSON(t *testing.T) {
	held(t, func(t *testing.T, w *world) {
		text := w.reserved[record.KeyBrake].text
		want := `{"engaged":true,"engagement":"` + w.b.State().Engagement + `","since":"` + w.b.State().Since.Format(time.RFC3339Nano) +
			`","reason":"11 of 20 primaries vanished without a delete being seen within 10m0s","held":11}`
		if text != want {
			t.Errorf("kept %s\nwant %s", text, want)
		}
	})
}

func TestAStateThatDoesNotDecodeCountsAsEngaged(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.restart(func() {
			w.lose(name(0))
			w.write(record.KeyBrake, "release please")
		})
		w.settle()
		if state := w.wantHeld(1); !strings.Contains(state.Reason, "does not decode") {
			t.Errorf("reason %q", state.Reason)
		}
		w.release()
		w.settle()
		w.wantTornDown(1)
		if w.has(record.KeyBrake) {
			t.Error("it is still there")
		}
	})
}

// TestWhatIsKeptIsTheNewestState: a release that comes while the callback is told that the brake engaged is not
// overwritten.
func TestWhatIsKeptIsTheNewestState(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		for i := range 20 {
			w.stuck[name(i)] = true
		}
		w.change(func() {
			w.onTell = func(state brake.State) {
				if state.Engaged { // in the goroutine of the sweep: Run works on
					w.release()
					time.Sleep(time.Second)
					synctest.Wait()
				}
			}
		})
		w.sweep(orphans(20, "gone"))
		w.settle()
		if left, ok := kept[brake.State](w, record.KeyBrake); ok && left.Engaged {
			t.Errorf("kept %+v after the release", left)
		}
		if state := w.b.State(); state.Engaged {
			t.Errorf("%+v", state)
		}
	})
}

// TestItHoldsWhileItsStateCannotBeKept, and keeps it once NATS is back.
func TestItHoldsWhileItsStateCannotBeKept(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.change(func() { w.away = true })
		w.lose(names(0, 11)...)
		w.settle()
		w.wantHeld(11)
		time.Sleep(time.Hour)
		w.change(func() { w.away = false })
		w.settle()
		if left, _ := kept[brake.State](w, record.KeyBrake); !left.Engaged {
			t.Errorf("kept %+v", left)
		}
	})
}

func TestATermThatEndsWhileNATSIsAwayDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.begin()
		b := w.b
		w.halt()
		w.away = true
		ctx, cancel := context.WithTimeout(quiet(t), time.Minute)
		defer cancel()
		if err := b.Start(ctx); err == nil {
			t.Error("it began")
		}
	})
}

package brake_test

import (
	"testing"
	"time"
)

// TestNothingIsDecidedWhileTheLeaderIsAsked: the first of a mass delete would slip through where answers take long.
func TestNothingIsDecidedWhileTheLeaderIsAsked(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		for _, key := range names(0, 20) {
			answered := w.b.Asking()
			time.Sleep(time.Second)
			answered()
			w.lose(key)
			time.Sleep(200 * time.Millisecond)
		}
		w.settle()
		w.wantHeld(20)
	})
}

func TestNothingIsDecidedAsSoonAsTheLeaderAnswers(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		answered := w.b.Asking()
		w.lose(names(0, 9)...) // another worker has them
		time.Sleep(10 * time.Second)
		answered()
		time.Sleep(200 * time.Millisecond)
		w.lose(names(9, 20)...)
		w.settle()
		w.wantHeld(20)
	})
}

// TestItDoesNotWaitForEverForTheLeader: a key about which it is asked again and again holds up nobody for long.
func TestItDoesNotWaitForEverForTheLeader(t *testing.T) {
	run(t, 20, func(t *testing.T, w *world) {
		w.lose(names(0, 20)...)
		for range 40 {
			answered := w.b.Asking()
			time.Sleep(time.Second)
			answered()
		}
		w.wantHeld(20)
	})
}

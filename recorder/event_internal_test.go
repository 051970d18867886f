package recorder

import (
	"testing"
	"testing/synctest"
	"time"
)

// The names of events are made of the time: in a bubble it stands still.
func TestNoTwoEventsHaveOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &uniqueClock{}
		last := clock.Now()
		for range 1000 {
			now := clock.Now()
			if !now.After(last) {
				t.Fatalf("%v is not after %v", now, last)
			}
			last = now
		}
		time.Sleep(time.Second)
		if now := clock.Now(); !now.Equal(time.Now()) {
			t.Errorf("after a second it says %v, and it is %v", now, time.Now())
		}
	})
}

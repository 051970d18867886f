package recorder

import (
	"testing"
	"testing/synctest"
	"time"
)

// Events are named by the time, which stands still in a bubble.
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

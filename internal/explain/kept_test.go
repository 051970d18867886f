package explain

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsKeptIsFreedWhenItsTimeIsOver, though no request comes: it may be tens of megabytes.
func TestWhatIsKeptIsFreedWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept[*int]
		made := 0
		get := func() {
			k.get(func() (*int, int) {
				time.Sleep(time.Second)
				made++
				return &made, fewKeys + 1
			})
		}
		for want := range 3 {
			get()
			time.Sleep(50*time.Second - time.Nanosecond)
			synctest.Wait()
			if get(); k.value == nil || made != want+1 {
				t.Errorf("it is %v, and was made %d times", k.value, made)
			}
			time.Sleep(freedAfter)
			synctest.Wait()
			if k.value == nil {
				t.Error("it is not kept")
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if k.value != nil || k.frees != nil {
				t.Error("it is kept still")
			}
		}
	})
}

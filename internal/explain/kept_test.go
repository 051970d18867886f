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
		has := func() bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.value != nil
		}
		for want := range 3 {
			get()
			time.Sleep(50*time.Second - time.Nanosecond)
			synctest.Wait()
			if get(); !has() || made != want+1 {
				t.Errorf("it is kept: %v, and was made %d times", has(), made)
			}
			time.Sleep(freedAfter)
			synctest.Wait()
			if !has() {
				t.Error("it is not kept")
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if has() {
				t.Error("it is kept still")
			}
		}
	})
}

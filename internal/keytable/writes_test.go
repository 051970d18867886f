package keytable

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// TestFewKeysHaveALoopThatIsIdle: those that write in each run, but are not woken by it, do not take memory for ever.
func TestFewKeysHaveALoopThatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys Table
		for n := range 2 * loopsKept {
			keys.Watch(fmt.Sprint(n))
		}
		if keys.Len() != loopsKept || keys.Trail("0") == nil || keys.Trail(fmt.Sprint(loopsKept)) != nil {
			t.Errorf("%d keys have one, want the first %d", keys.Len(), loopsKept)
		}
		time.Sleep(time.Minute)
		keys.Trail("0").End(time.Now(), true, false, false)
		keys.Watch("new")
		if keys.Len() != 2 || keys.Trail("0") == nil || keys.Trail("new") == nil {
			t.Errorf("%d keys have one, want the one that runs and the new one", keys.Len())
		}
	})
}

// TestOwnWritesOfManyKeysTakeBoundedMemory while no cache shows them, and next to none once the caches do. A key that
// writes again and again takes no more.
func TestOwnWritesOfManyKeysTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	reached := false
	wrote := func() *ownwrites.Log {
		log := &ownwrites.Log{}
		log.Add(nil, "", ownwrites.Polled(func() bool { return reached }))
		return log
	}
	var keys Table
	for n := range 2*ownWritesKept - 1 {
		keys.KeepWrites(fmt.Sprint(n), wrote())
	}
	last := wrote()
	keys.KeepWrites("last", last)
	if n := keys.writing; n > ownWritesKept {
		t.Errorf("%d are kept, want at most %d", n, ownWritesKept)
	}
	if keys.Of("last").writes != last {
		t.Error("the last is not among them")
	}
	for range 4 * ownWritesKept {
		keys.KeepWrites("hot", wrote())
	}
	if n := len(keys.wrote); n > 2*ownWritesKept {
		t.Errorf("%d turns are kept", n)
	}
	reached = true
	for n := range 2 * ownWritesKept {
		keys.KeepWrites(fmt.Sprint(n), wrote())
	}
	if n := keys.writing; n > 1 {
		t.Errorf("%d are kept that the caches show", n)
	}
	if n := len(keys.byKey); n > 1 {
		t.Errorf("%d keys are remembered", n)
	}
}

package keytable

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

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

package controllerruntime

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
)

// TestTheCallbackForSourcesMayUseTheClient, although the news come from within it.
func TestTheCallbackForSourcesMayUseTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	told := make(chan error, 10)
	c, err := New("sites", sites, new(calls).reconciler(nil), WithOnSourceError(func(_ string, err error) {
		sites.Subscribe(entity.Hooks{})()
		told <- err
	}))
	must(t, err)
	r := w.run(c)
	eventually(t, "it leads", func() bool { return c.Stats().Leading })
	go sites.Close()
	if err := receive(t, "the news", told); err == nil {
		t.Error("told of no error")
	}
	r.halt()
}

// TestOwnWritesOfManyKeysTakeBoundedMemory while no cache shows them, and next to none once they do; nor do those of a key that
// writes again and again.
func TestOwnWritesOfManyKeysTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	reached := false
	wrote := func() *ownwrites.Log {
		log := &ownwrites.Log{}
		log.Add(nil, "", ownwrites.Polled(func() bool { return reached }))
		return log
	}
	var keys keyTable
	for n := range 2*ownWritesKept - 1 {
		keys.keepWrites(fmt.Sprint(n), wrote())
	}
	last := wrote()
	keys.keepWrites("last", last)
	if n := keys.writing; n > ownWritesKept {
		t.Errorf("%d are kept, want at most %d", n, ownWritesKept)
	}
	if keys.of("last").writes != last {
		t.Error("the last is not among them")
	}
	for range 4 * ownWritesKept {
		keys.keepWrites("hot", wrote())
	}
	if n := len(keys.wrote); n > 2*ownWritesKept {
		t.Errorf("%d turns are kept", n)
	}
	reached = true
	for n := range 2 * ownWritesKept {
		keys.keepWrites(fmt.Sprint(n), wrote())
	}
	if n := keys.writing; n > 1 {
		t.Errorf("%d are kept that the caches show", n)
	}
	if n := len(keys.byKey); n > 1 {
		t.Errorf("%d keys are remembered", n)
	}
}

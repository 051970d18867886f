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
	log, reached := &ownwrites.Log{}, false
	log.Add(nil, "", ownwrites.Polled(func() bool { return reached }))
	var written ownWrites
	for n := range 2 * ownWritesKept {
		written.put(fmt.Sprint(n), log)
	}
	if n := written.len(); n > ownWritesKept {
		t.Errorf("%d are kept, want at most %d", n, ownWritesKept)
	}
	last := fmt.Sprint(2*ownWritesKept - 1)
	if got, _ := written.take(last); got.Log != log {
		t.Error("the last is not among them")
	}
	for range 4 * ownWritesKept {
		written.put("hot", log)
	}
	if n := len(written.order); n > 2*ownWritesKept {
		t.Errorf("%d turns are kept", n)
	}
	reached = true
	for n := range 2 * ownWritesKept {
		written.put(fmt.Sprint(n), log)
	}
	if n := written.len(); n > 1 {
		t.Errorf("%d are kept that the caches show", n)
	}
}

package controllerruntime

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
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

// TestOwnWritesOfManyKeysTakeBoundedMemory, although no cache shows them.
func TestOwnWritesOfManyKeysTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	stop, err := sites.Start()
	must(t, err)
	defer stop()
	log := &entity.WriteLog{}
	must(t, sites.Create(entity.WithWriteLog(t.Context(), log), newSite("home", "one")))
	var written ownWrites
	for n := range 2 * ownWritesKept {
		written.put(fmt.Sprint(n), log)
	}
	if n := written.len(); n > ownWritesKept {
		t.Errorf("%d are kept, want at most %d", n, ownWritesKept)
	}
	last := fmt.Sprint(2*ownWritesKept - 1)
	if got, _ := written.take(last); got != log {
		t.Error("the last is not among them")
	}
}

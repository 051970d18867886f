package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestTheCallbackForSourcesMayUseTheClient, although the news come from within it.
func TestTheCallbackForSourcesMayUseTheClient(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		told := make(chan error, 10)
		c, err := New("sites", sites, new(calls).reconciler(nil), WithOnSourceError(func(_ string, err error) {
			sites.Subscribe(entity.Hooks{})()
			told <- err
		}))
		must(t, err)
		r := w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		go sites.Close()
		if err := receive(t, "the news", told); err == nil {
			t.Error("told of no error")
		}
		r.halt()
	})
}

package entity_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestCachesThatAreKeptWarmEndWhenTheirLastUserHasGone, and not before one was there.
func TestCachesThatAreKeptWarmEndWhenTheirLastUserHasGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		must(t, client.Create(t.Context(), website("a")))
		retire, err := client.EnginePort().Warm()
		must(t, err)
		natstest.Eventually(t, "synced", client.Informer().HasSynced)
		if retire(false) {
			t.Error("it ended before a user came")
		}
		stop, err := client.Start()
		must(t, err)
		if retire(false) || retire(true) {
			t.Error("it ended while another user was there")
		}
		stop()
		informer := client.Informer()
		if informer.IsStopped() {
			t.Error("it ended with the other user")
		}
		if left := consumers(t, js, "websites") + consumers(t, js, "websites-status"); !retire(false) || left == 0 {
			t.Errorf("it did not end, or %d consumers were there", left)
		}
		if !informer.IsStopped() || consumers(t, js, "websites")+consumers(t, js, "websites-status") != 0 {
			t.Errorf("stopped: %v, consumers: %d", informer.IsStopped(), consumers(t, js, "websites"))
		}
		if !retire(false) {
			t.Error("the second time it had not ended")
		}
		if _, err := client.Lister().Get("a"); err != nil {
			t.Errorf("a lister that is read later: %v", err)
		}
	})
}

func TestCachesThatNobodyUsedEndWhereThatIsSaid(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		retire, err := client.EnginePort().Warm()
		must(t, err)
		natstest.Eventually(t, "synced", client.Informer().HasSynced)
		if !retire(true) || consumers(t, js, "websites") != 0 {
			t.Errorf("consumers: %d", consumers(t, js, "websites"))
		}
		client.Close()
		if _, err := client.EnginePort().Warm(); err == nil {
			t.Error("a closed client is kept warm")
		}
	})
}

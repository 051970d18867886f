package engine

import (
	"context"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// membersEngine is an engine with slots that runs, and has opened them.
func membersEngine(t *testing.T) *Engine {
	t.Helper()
	opts := DefaultOptions()
	opts.Shards, opts.Member, opts.MemberWeight = 4, "a", 1
	e := engineOfSites(t, opts)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	natstest.Eventually(t, "all slots are open", func() bool { return e.sharing.countOpen() == 4 })
	return e
}

// TestSlotsAreOpenedThoughOneWasGainedInAStreamThatWentBack meanwhile: the caches never show the revision at which it was
// gained. The member notices that the stream went back, and has other slots then.
func TestSlotsAreOpenedThoughOneWasGainedInAStreamThatWentBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := membersEngine(t)
		lost, end := context.WithCancel(t.Context())
		defer end()
		e.sharing.Drain(1)
		e.sharing.Gained(lost, 1, 1<<40)
		time.Sleep(time.Minute)
		if n := e.sharing.countOpen(); n != 3 {
			t.Errorf("%d slots are open", n)
		}
		end()
		e.sharing.Expel() // as Reset does
		began := time.Now()
		natstest.Eventually(t, "all slots are open", func() bool { return e.sharing.countOpen() == 4 })
		if took := time.Since(began); took > e.opts.Lease.Duration+2*time.Second {
			t.Errorf("all slots are open after %v", took)
		}
	})
}

// TestAMemberIsReadyThoughTheStreamWentBackAsItLoaded: what it has to load is asked for anew.
func TestAMemberIsReadyThoughTheStreamWentBackAsItLoaded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		e := membersEngine(t)
		began := time.Now()
		if err := e.sharing.loadUpTo(t.Context(), 1<<40); err == nil || time.Since(began) != loadPatience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := e.sharing.Load(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

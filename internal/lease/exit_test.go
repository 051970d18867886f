package lease

import (
	"testing"
	"time"
)

func TestAProcessThatEndsAtOnceLeavesItsLeaseWithinMomentsAndNotBeforeItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		ctx, exit := WithExit(t.Context())
		first := k.join("first")
		first.runUntil(t, ctx)
		after(5 * time.Second)
		second := k.join("second").run(t)
		after(10 * time.Second)
		began := time.Now()
		if held, left := exit.Leave(); held != 1 || left != 1 {
			t.Fatalf("%d held, %d left", held, left)
		}
		if took := time.Since(began); took > exitPatience {
			t.Errorf("it took %v", took)
		}
		if first.leads() {
			t.Error("it works on under a lease that it leaves")
		}
		first.use(lost, lost) // the process has ended
		time.Sleep(time.Until(began.Add(exitPatience)))
		if len(second.served()) != 0 {
			t.Error("another replica leads before the process must have ended")
		}
		after(exitDuration + 2*usual.RetryPeriod*2)
		if !second.leads() {
			t.Error("the other replica does not lead")
		}
	})
}

// TestAProcessThatEndsAtOnceRenewsNoMore: a renewal that goes on would write the long duration again.
func TestAProcessThatEndsAtOnceRenewsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		ctx, exit := WithExit(t.Context())
		first := k.join("first")
		first.runUntil(t, ctx)
		after(5 * time.Second)
		exit.Leave()
		after(2 * usual.RetryPeriod)
		if got := k.record(t); got.LeaseDurationSeconds != int(exitDuration/time.Second) || got.HolderIdentity != "first" {
			t.Errorf("the record is %+v", got)
		}
	})
}

func TestTheEndOfAProcessDoesNotWaitForAServerThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		ctx, exit := WithExit(t.Context())
		first := k.join("first")
		first.runUntil(t, ctx)
		after(5 * time.Second)
		first.use(lost, lost)
		began := time.Now()
		if held, left := exit.Leave(); held != 1 || left != 0 || time.Since(began) > exitPatience {
			t.Errorf("%d held, %d left, after %v", held, left, time.Since(began))
		}
	})
}

package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// TestAKeyThatIsHeldGoesToNoWorkerAndLosesNoReason, whether it was due before or becomes due meanwhile.
func TestAKeyThatIsHeldGoesToNoWorkerAndLosesNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.Add("due", operation.Of(operation.Put), Live)
		for _, key := range []string{"due", "calm"} {
			if err := q.Hold(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if q.Running(key) || !q.Look(key).Held {
				t.Errorf("%s is held: %+v", key, q.Look(key))
			}
		}
		q.Add("calm", operation.Of(operation.Secondary), Secondary)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if it, ok := q.Get(soon); ok {
			t.Fatalf("%s was handed out while it is held", it.Key)
		}
		if err := q.WaitIdle(soon); err != nil {
			t.Errorf("something waits for the end of a hold: %v", err)
		}
		q.Release("due")
		q.Release("calm")
		got := map[string]operation.Operations{}
		for range 2 {
			it, ok := q.Get(t.Context())
			if !ok {
				t.Fatal("the queue ended")
			}
			got[it.Key] = it.Ops
			q.Done(it.Key)
		}
		if got["due"] != operation.Of(operation.Put) || got["calm"] != operation.Of(operation.Secondary) {
			t.Errorf("handed out were %v", got)
		}
		requireEmpty(t, q)
	})
}

func TestHoldWaitsForTheWorkerThatHasTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		q.Add("k", operation.Of(operation.Put), Live)
		takeKey(t, q, "k", operation.Of(operation.Put))
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Hold(soon, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("held while a worker has it: %v", err)
		}
		held := make(chan error)
		go func() { held <- q.Hold(t.Context(), "k") }()
		time.Sleep(time.Second)
		q.Done("k")
		if err := <-held; err != nil {
			t.Error(err)
		}
		q.Add("k", operation.Of(operation.Put), Live)
		q.CancelDue("k")
		q.Release("k")
		requireEmpty(t, q)
		q.ShutDown()
		if err := q.Hold(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("after ShutDown: %v", err)
		}
	})
}

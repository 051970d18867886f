package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

func TestEventCancelsAPendingRetryOrRequeueAndKeepsItsReasons(t *testing.T) {
	for _, test := range []struct {
		name string
		kind DelayKind
		ops  operation.Operations
		want operation.Operations
	}{
		{"retry", RetryDelay, opDelete | opSecondary | opRetry, opPut | opSecondary},
		{"requeue", RequeueDelay, opRequeue, opPut},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Options{})
				defer q.ShutDown()
				q.AddAfter("a", test.ops, Background, time.Second, test.kind)
				q.Add("a", opPut, Live)
				if q.timersPending() != 0 {
					t.Error("the delay is still pending")
				}
				runKey(t, q, "a", test.want)
				advance(time.Hour)
				requireEmpty(t, q)
			})
		})
	}
}

func TestEventDuringARunAbsorbsTheRetryOfThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.Add("a", opDelete, Live)
		takeKey(t, q, "a", opDelete)
		q.Add("a", opPut, Live)
		// What the failed attempt gives back is older than the put.
		q.AddAfter("a", opDelete|opSecondary|opRetry, Background, time.Second, RetryDelay)
		q.Done("a")
		runKey(t, q, "a", opPut|opSecondary)
		advance(time.Hour)
		requireEmpty(t, q)
	})
}

func TestRetryGivesBackItsReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.Add("a", opPut|opSecondary, Live)
		takeKey(t, q, "a", opPut|opSecondary)
		q.AddAfter("a", opPut|opSecondary|opRetry, Background, time.Second, RetryDelay)
		q.Done("a")
		if q.depth() != 0 || q.Pending("a") != opPut|opSecondary|opRetry {
			t.Errorf("depth %d, pending %s", q.depth(), q.Pending("a"))
		}
		advance(time.Second)
		runKey(t, q, "a", opPut|opSecondary|opRetry)
		requireEmpty(t, q)
	})
}

func TestUsersDelaySurvivesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		start := time.Now()
		q.AddAfter("a", opManual|operation.ByHand, Live, time.Minute, UserDelay)
		q.Add("a", opPut, Live)
		runKey(t, q, "a", opPut)
		q.AddAfter("a", opRequeue, Background, time.Second, RequeueDelay)
		it, _ := q.Get(context.Background())
		q.Done(it.Key)
		if it.Ops != opRequeue || time.Since(start) != time.Second {
			t.Errorf("got %s after %v", it.Ops, time.Since(start))
		}
		if it, _ := q.Get(context.Background()); it.Ops != opManual|operation.ByHand ||
			time.Since(start) != time.Minute {
			t.Errorf("got %s after %v", it.Ops, time.Since(start))
		}
	})
}

func TestUsersDelayThatEndsCancelsAPendingRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.AddAfter("a", opPut|opRetry, Background, time.Minute, RetryDelay)
		q.AddAfter("a", opManual, Live, time.Second, UserDelay)
		advance(time.Second)
		runKey(t, q, "a", opPut|opManual)
		requireEmpty(t, q)
	})
}

func TestShorterOfTwoDelaysWins(t *testing.T) {
	for _, kinds := range [][2]DelayKind{
		{RetryDelay, RetryDelay}, {RetryDelay, RequeueDelay}, {RequeueDelay, RetryDelay}, {UserDelay, UserDelay},
	} {
		for _, delays := range [][2]time.Duration{{time.Second, time.Hour}, {time.Hour, time.Second}} {
			synctest.Test(t, func(t *testing.T) {
				q := New(Options{})
				defer q.ShutDown()
				start := time.Now()
				q.AddAfter("a", opSecondary, Background, delays[0], kinds[0])
				q.AddAfter("a", opResync, Background, delays[1], kinds[1])
				it, _ := q.Get(context.Background())
				if it.Ops != opSecondary|opResync || time.Since(start) != time.Second {
					t.Errorf("%v %v: got %s after %v", kinds, delays, it.Ops, time.Since(start))
				}
				q.Done("a")
				advance(2 * time.Hour)
				requireEmpty(t, q)
			})
		}
	}
}

func TestZeroDelayIsAtOnceAndBeatsAPendingOne(t *testing.T) {
	for _, kind := range []DelayKind{RetryDelay, RequeueDelay, UserDelay} {
		synctest.Test(t, func(t *testing.T) {
			q := New(Options{})
			defer q.ShutDown()
			q.AddAfter("a", opResync, Background, time.Hour, RequeueDelay)
			q.AddAfter("a", opSecondary, Background, -1, kind)
			runKey(t, q, "a", opResync|opSecondary)
			advance(2 * time.Hour)
			requireEmpty(t, q)
		})
	}
}

func TestDelayThatEndsDuringTheRunMakesOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.AddAfter("a", opManual, Live, time.Second, UserDelay)
		q.Add("a", opPut, Live)
		takeKey(t, q, "a", opPut)
		advance(time.Minute)
		if c := q.Counts(); c.Rerun != 1 || q.depth() != 0 {
			t.Errorf("while it runs: %+v", c)
		}
		q.Done("a")
		runKey(t, q, "a", opManual)
		requireEmpty(t, q)
	})
}

func TestDelayedKeysAreNeverEarlyNorForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000
		q := New(Options{})
		defer q.ShutDown()
		due := map[string]time.Time{}
		random := rand.New(rand.NewPCG(1, 2))
		for i := range keys {
			key := fmt.Sprint(i)
			d := time.Duration(random.Int64N(int64(time.Minute)))
			due[key] = time.Now().Add(d)
			q.AddAfter(key, opRequeue, Background, d, DelayKind(i%3))
			if i%10 == 0 { // while others fire
				advance(time.Millisecond)
				for q.depth() > 0 {
					handOut(t, q, due)
				}
			}
		}
		for len(due) > 0 {
			handOut(t, q, due)
		}
		requireEmpty(t, q)
	})
}

// handOut takes the next key, which must be due, and became so just now if the
// queue had to be waited for.
func handOut(t *testing.T, q *Queue, due map[string]time.Time) {
	t.Helper()
	waited := q.depth() == 0
	it, _ := q.Get(context.Background())
	q.Done(it.Key)
	late := time.Since(due[it.Key])
	if late < 0 || (waited && late > 0) {
		t.Fatalf("%s is %v late", it.Key, late)
	}
	delete(due, it.Key)
}

func TestDelaysTakeNoGoroutineAndEndWithTheQueue(t *testing.T) {
	before := runtime.NumGoroutine()
	q := New(Options{})
	for i := range 10_000 {
		q.AddAfter(fmt.Sprint(i), opRequeue, Background, time.Hour, RequeueDelay)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines for 10,000 delays", n-before)
	}
	if n := q.timersPending(); n != 10_000 {
		t.Errorf("%d delays pending", n)
	}
	q.ShutDown()
	if n := q.timersPending(); n != 0 {
		t.Errorf("%d delays pending after ShutDown", n)
	}
}

func TestHugeDelaysDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{DebounceQuiet: time.Second, DebounceMax: never})
		defer q.ShutDown()
		advance(time.Hour)
		q.AddAfter("a", opRequeue, Background, never, RequeueDelay)
		q.Add("b", opPut, Live)
		advance(time.Second)
		runKey(t, q, "b", opPut)
		if q.depth() != 0 || q.timersPending() != 1 {
			t.Error("a delay of centuries is over")
		}
	})
}

func TestCancelDelaysForgetsDelaysButNotWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{DebounceQuiet: time.Second, DebounceMax: time.Minute})
		defer q.ShutDown()
		q.AddAfter("a", opRetry, Background, time.Second, RetryDelay)
		q.AddAfter("a", opManual, Live, time.Second, UserDelay)
		q.CancelDelays("a")
		requireEmpty(t, q)

		q.Add("held", opPut, Live)
		q.Add("ready", opResync, Background)
		q.CancelDelays("held")
		q.CancelDelays("ready")
		q.CancelDelays("unknown")
		runKey(t, q, "ready", opResync)
		advance(time.Second)
		runKey(t, q, "held", opPut)
		requireEmpty(t, q)
	})
}

// debounced returns a queue that waits for 100 ms of quiet, at most a second.
func debounced() *Queue {
	return New(Options{DebounceQuiet: 100 * time.Millisecond, DebounceMax: time.Second})
}

func TestDebouncePostponesAKeyUntilItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		defer q.ShutDown()
		first := time.Now()
		for range 5 {
			q.Add("a", opPut, Live)
			advance(60 * time.Millisecond)
			if q.depth() != 0 {
				t.Fatalf("ready %v after its first change", time.Since(first))
			}
		}
		it, _ := q.Get(context.Background())
		if it.Ops != opPut || time.Since(first) != 340*time.Millisecond || !it.Added.Equal(first) {
			t.Errorf("got %+v after %v", it, time.Since(first))
		}
		q.Done("a")
		advance(time.Hour)
		requireEmpty(t, q)
	})
}

func TestDebounceNeverHidesAHotKeyForLongerThanMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					q.Add("hot", opPut, Live)
				}
			}
		}()
		for range 10 {
			it, _ := q.Get(context.Background())
			if hidden := time.Since(it.Added); hidden != time.Second {
				t.Errorf("hidden for %v", hidden)
			}
			q.Done(it.Key)
		}
		close(stop)
		q.ShutDown()
	})
}

func TestDebounceDoesNotHoldWhatIsNoLiveChange(t *testing.T) {
	for name, event := range map[string]struct {
		ops  operation.Operations
		prio Priority
	}{
		"by hand":    {opManual | operation.ByHand, Live},
		"background": {opResync, Background},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := debounced()
				defer q.ShutDown()
				q.Add("a", event.ops, event.prio)
				runKey(t, q, "a", event.ops)
				q.Add("a", opPut, Live)
				q.Add("a", event.ops, event.prio) // takes the held change along
				runKey(t, q, "a", opPut|event.ops)
				advance(time.Hour)
				requireEmpty(t, q)
			})
		})
	}
}

func TestDebouncedChangeTakesTheRetryAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		defer q.ShutDown()
		q.AddAfter("a", opSecondary|opRetry, Background, time.Hour, RetryDelay)
		q.Add("a", opPut, Live)
		q.AddAfter("a", opResync|opRetry, Background, time.Hour, RetryDelay)
		if q.depth() != 0 || q.timersPending() != 1 {
			t.Errorf("%+v", q.Counts())
		}
		advance(100 * time.Millisecond)
		runKey(t, q, "a", opPut|opSecondary|opResync)
		advance(2 * time.Hour)
		requireEmpty(t, q)
	})
}

func TestDebounceLeavesADueKeyDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		defer q.ShutDown()
		q.Add("a", opResync, Background)
		q.Add("a", opPut, Live)
		runKey(t, q, "a", opResync|opPut)
		requireEmpty(t, q)
	})
}

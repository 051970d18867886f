package controllerruntime

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventCancelsAPendingRetryOrRequeueAndKeepsItsReasons(t *testing.T) {
	for _, test := range []struct {
		name string
		kind timerKind
		ops  Operations
		want Operations
	}{
		{"retry", timerRetry, opDelete | opSecondary | opRetry, opPut | opSecondary},
		{"requeue", timerRequeue, opRequeue, opPut},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(queueOptions{})
				defer q.shutDown()
				q.addAfter("a", test.ops, prioBackground, time.Second, test.kind)
				q.add("a", opPut, prioLive)
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
		q := newQueue(queueOptions{})
		defer q.shutDown()
		q.add("a", opDelete, prioLive)
		takeKey(t, q, "a", opDelete)
		q.add("a", opPut, prioLive)
		// What the failed attempt gives back is older than the put.
		q.addAfter("a", opDelete|opSecondary|opRetry, prioBackground, time.Second, timerRetry)
		q.done("a")
		runKey(t, q, "a", opPut|opSecondary)
		advance(time.Hour)
		requireEmpty(t, q)
	})
}

func TestRetryGivesBackItsReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		q.add("a", opPut|opSecondary, prioLive)
		takeKey(t, q, "a", opPut|opSecondary)
		q.addAfter("a", opPut|opSecondary|opRetry, prioBackground, time.Second, timerRetry)
		q.done("a")
		if q.depth() != 0 || q.pendingOps("a") != opPut|opSecondary|opRetry {
			t.Errorf("depth %d, pending %s", q.depth(), q.pendingOps("a"))
		}
		advance(time.Second)
		runKey(t, q, "a", opPut|opSecondary|opRetry)
		requireEmpty(t, q)
	})
}

func TestUsersDelaySurvivesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		start := time.Now()
		q.addAfter("a", opManual|explicitBit, prioLive, time.Minute, timerUser)
		q.add("a", opPut, prioLive)
		runKey(t, q, "a", opPut)
		q.addAfter("a", opRequeue, prioBackground, time.Second, timerRequeue)
		it, _ := q.get()
		q.done(it.key)
		if it.ops != opRequeue || time.Since(start) != time.Second {
			t.Errorf("got %s after %v", it.ops, time.Since(start))
		}
		if it, _ := q.get(); it.ops != opManual|explicitBit || time.Since(start) != time.Minute {
			t.Errorf("got %s after %v", it.ops, time.Since(start))
		}
	})
}

func TestUsersDelayThatEndsCancelsAPendingRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		q.addAfter("a", opPut|opRetry, prioBackground, time.Minute, timerRetry)
		q.addAfter("a", opManual, prioLive, time.Second, timerUser)
		advance(time.Second)
		runKey(t, q, "a", opPut|opManual)
		requireEmpty(t, q)
	})
}

func TestShorterOfTwoDelaysWins(t *testing.T) {
	for _, kinds := range [][2]timerKind{
		{timerRetry, timerRetry}, {timerRetry, timerRequeue}, {timerRequeue, timerRetry}, {timerUser, timerUser},
	} {
		for _, delays := range [][2]time.Duration{{time.Second, time.Hour}, {time.Hour, time.Second}} {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(queueOptions{})
				defer q.shutDown()
				start := time.Now()
				q.addAfter("a", opSecondary, prioBackground, delays[0], kinds[0])
				q.addAfter("a", opResync, prioBackground, delays[1], kinds[1])
				it, _ := q.get()
				if it.ops != opSecondary|opResync || time.Since(start) != time.Second {
					t.Errorf("%v %v: got %s after %v", kinds, delays, it.ops, time.Since(start))
				}
				q.done("a")
				advance(2 * time.Hour)
				requireEmpty(t, q)
			})
		}
	}
}

func TestZeroDelayIsAtOnceAndBeatsAPendingOne(t *testing.T) {
	for _, kind := range []timerKind{timerRetry, timerRequeue, timerUser} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(queueOptions{})
			defer q.shutDown()
			q.addAfter("a", opResync, prioBackground, time.Hour, timerRequeue)
			q.addAfter("a", opSecondary, prioBackground, -1, kind)
			runKey(t, q, "a", opResync|opSecondary)
			advance(2 * time.Hour)
			requireEmpty(t, q)
		})
	}
}

func TestDelayThatEndsDuringTheRunMakesOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		q.addAfter("a", opManual, prioLive, time.Second, timerUser)
		q.add("a", opPut, prioLive)
		takeKey(t, q, "a", opPut)
		advance(time.Minute)
		if c := q.counts(); c.rerun != 1 || q.depth() != 0 {
			t.Errorf("while it runs: %+v", c)
		}
		q.done("a")
		runKey(t, q, "a", opManual)
		requireEmpty(t, q)
	})
}

func TestDelayedKeysAreNeverEarlyNorForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000
		q := newQueue(queueOptions{})
		defer q.shutDown()
		due := map[string]time.Time{}
		random := rand.New(rand.NewPCG(1, 2))
		for i := range keys {
			key := fmt.Sprint(i)
			d := time.Duration(random.Int64N(int64(time.Minute)))
			due[key] = time.Now().Add(d)
			q.addAfter(key, opRequeue, prioBackground, d, timerKind(i%3))
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
func handOut(t *testing.T, q *queue, due map[string]time.Time) {
	t.Helper()
	waited := q.depth() == 0
	it, _ := q.get()
	q.done(it.key)
	late := time.Since(due[it.key])
	if late < 0 || (waited && late > 0) {
		t.Fatalf("%s is %v late", it.key, late)
	}
	delete(due, it.key)
}

func TestDelaysTakeNoGoroutineAndEndWithTheQueue(t *testing.T) {
	before := runtime.NumGoroutine()
	q := newQueue(queueOptions{})
	for i := range 10_000 {
		q.addAfter(fmt.Sprint(i), opRequeue, prioBackground, time.Hour, timerRequeue)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines for 10,000 delays", n-before)
	}
	if n := q.timersPending(); n != 10_000 {
		t.Errorf("%d delays pending", n)
	}
	q.shutDown()
	if n := q.timersPending(); n != 0 {
		t.Errorf("%d delays pending after shutDown", n)
	}
}

func TestHugeDelaysDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{debounceQuiet: time.Second, debounceMax: never})
		defer q.shutDown()
		advance(time.Hour)
		q.addAfter("a", opRequeue, prioBackground, never, timerRequeue)
		q.add("b", opPut, prioLive)
		advance(time.Second)
		runKey(t, q, "b", opPut)
		if q.depth() != 0 || q.timersPending() != 1 {
			t.Error("a delay of centuries is over")
		}
	})
}

func TestDropForgetsDelaysAndFailuresButNotWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{debounceQuiet: time.Second, debounceMax: time.Minute})
		defer q.shutDown()
		q.backoff.fail("a")
		q.addAfter("a", opRetry, prioBackground, time.Second, timerRetry)
		q.addAfter("a", opManual, prioLive, time.Second, timerUser)
		q.drop("a")
		requireEmpty(t, q)

		q.add("held", opPut, prioLive)
		q.add("ready", opResync, prioBackground)
		q.drop("held")
		q.drop("ready")
		q.drop("unknown")
		runKey(t, q, "ready", opResync)
		advance(time.Second)
		runKey(t, q, "held", opPut)
		requireEmpty(t, q)
	})
}

// debounced returns a queue that waits for 100 ms of quiet, at most a second.
func debounced() *queue {
	return newQueue(queueOptions{debounceQuiet: 100 * time.Millisecond, debounceMax: time.Second})
}

func TestDebouncePostponesAKeyUntilItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		defer q.shutDown()
		first := time.Now()
		for range 5 {
			q.add("a", opPut, prioLive)
			advance(60 * time.Millisecond)
			if q.depth() != 0 {
				t.Fatalf("ready %v after its first change", time.Since(first))
			}
		}
		it, _ := q.get()
		if it.ops != opPut || time.Since(first) != 340*time.Millisecond || !it.added.Equal(first) {
			t.Errorf("got %+v after %v", it, time.Since(first))
		}
		q.done("a")
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
					q.add("hot", opPut, prioLive)
				}
			}
		}()
		for range 10 {
			it, _ := q.get()
			if hidden := time.Since(it.added); hidden != time.Second {
				t.Errorf("hidden for %v", hidden)
			}
			q.done(it.key)
		}
		close(stop)
		q.shutDown()
	})
}

func TestDebounceDoesNotHoldWhatIsNoLiveChange(t *testing.T) {
	for name, event := range map[string]struct {
		ops  Operations
		prio priority
	}{
		"by hand":    {opManual | explicitBit, prioLive},
		"background": {opResync, prioBackground},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := debounced()
				defer q.shutDown()
				q.add("a", event.ops, event.prio)
				runKey(t, q, "a", event.ops)
				q.add("a", opPut, prioLive)
				q.add("a", event.ops, event.prio) // takes the held change along
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
		defer q.shutDown()
		q.addAfter("a", opSecondary|opRetry, prioBackground, time.Hour, timerRetry)
		q.add("a", opPut, prioLive)
		q.addAfter("a", opResync|opRetry, prioBackground, time.Hour, timerRetry)
		if q.depth() != 0 || q.timersPending() != 1 {
			t.Errorf("%+v", q.counts())
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
		defer q.shutDown()
		q.add("a", opResync, prioBackground)
		q.add("a", opPut, prioLive)
		runKey(t, q, "a", opResync|opPut)
		requireEmpty(t, q)
	})
}

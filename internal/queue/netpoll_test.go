package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// polling is a queue whose workers poll, in a synctest bubble, and how often they did.
func polling(poll func() error) (*Queue, *int) {
	q, polls := New(Options{}), 0
	q.SetPoll(func() error {
		polls++
		return poll()
	})
	return q, &polls
}

func takes(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

func addMany(q *Queue, n int, prio Priority) {
	for i := range n {
		q.Add(fmt.Sprint(prio, "-", i), operation.Of(operation.Put), prio)
	}
}

// workOff takes n keys, each of which takes so long.
func workOff(q *Queue, n int, each time.Duration) {
	for range n {
		it, _ := q.Get(context.Background())
		time.Sleep(each)
		q.Done(it.Key)
	}
}

func TestWorkersPollOnceInAnIntervalOfBackgroundKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 10 * time.Microsecond
		q, polls := polling(takes(length))
		defer q.ShutDown()
		time.Sleep(time.Second)
		addMany(q, 1000, Background)
		start := time.Now()
		workOff(q, 1000, pollInterval/100)
		// One before the first key, and then one after each interval.
		if want := int(time.Since(start)/(pollInterval+length)) + 1; *polls < want-1 || *polls > want {
			t.Errorf("%d polls in %v, want %d", *polls, time.Since(start), want)
		}
	})
}

func TestNoPollStartsWhileLiveOrSecondaryKeysAreReady(t *testing.T) {
	for _, prio := range []Priority{Secondary, Live} {
		synctest.Test(t, func(t *testing.T) {
			q, polls := polling(takes(time.Hour))
			defer q.ShutDown()
			time.Sleep(time.Second)
			addMany(q, 100, Background)
			addMany(q, 1000, prio)
			workOff(q, 1000, pollInterval)
			if *polls != 0 {
				t.Errorf("%d polls while keys of Priority %d were ready", *polls, prio)
			}
		})
	}
}

// onePolls has one worker begin a poll that ends when the test sends its result, and another one wait for it.
func onePolls(t *testing.T) (q *Queue, handedOut chan Item, result chan error) {
	result, handedOut = make(chan error), make(chan Item, 10)
	q, _ = polling(func() error { return <-result })
	time.Sleep(time.Second)
	addMany(q, 10, Background)
	for range 2 {
		go func() {
			if it, ok := q.Get(context.Background()); ok {
				handedOut <- it
			}
		}()
	}
	synctest.Wait()
	if len(handedOut) != 0 {
		t.Fatal("a background key was handed out during a poll")
	}
	return q, handedOut, result
}

func TestALiveKeyIsHandedOutDuringAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, result := onePolls(t)
		defer q.ShutDown()
		q.Add("live", operation.Of(operation.Put), Live)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the poll, want the live one", len(handedOut))
		}
		if it := <-handedOut; it.Key != "live" {
			t.Errorf("%s was handed out during the poll", it.Key)
		}
		result <- nil
		if it := <-handedOut; it.Prio != Background {
			t.Errorf("%s was handed out after the poll", it.Key)
		}
	})
}

func TestALiveKeyThatComesDuringAPollGoesBeforeTheBackgroundKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue
		q, _ = polling(func() error {
			q.Add("live", operation.Of(operation.Put), Live)
			return nil
		})
		defer q.ShutDown()
		time.Sleep(time.Second)
		addMany(q, 10, Background)
		if it, _ := q.Get(context.Background()); it.Key != "live" {
			t.Errorf("%s was handed out after the poll, want the live key", it.Key)
		}
	})
}

func TestAllWorkersGoOnAfterAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, result := onePolls(t)
		defer q.ShutDown()
		result <- nil
		synctest.Wait()
		if len(handedOut) != 2 {
			t.Errorf("%d of 2 workers have a key after the poll", len(handedOut))
		}
	})
}

func TestShutDownDoesNotWaitForAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, result := onePolls(t)
		q.ShutDown()
		if _, ok := q.Get(context.Background()); ok {
			t.Error("a key was handed out after ShutDown")
		}
		result <- nil
		synctest.Wait()
		if len(handedOut) != 0 {
			t.Error("a key was handed out after ShutDown")
		}
	})
}

func TestAWorkerThatHadToWaitForAKeyDoesNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, polls := polling(takes(0))
		defer q.ShutDown()
		go workOff(q, 1000, 0)
		for i := range 1000 {
			time.Sleep(10 * pollInterval)
			q.Add(fmt.Sprint(i), operation.Of(operation.Resync), Background)
		}
		synctest.Wait()
		if *polls != 0 {
			t.Errorf("%d polls of a queue that was empty before each key", *polls)
		}
	})
}

func TestLongPollsBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 10 * time.Millisecond
		q, polls := polling(takes(length))
		defer q.ShutDown()
		addMany(q, 10_000, Background)
		start := time.Now()
		workOff(q, 10_000, pollInterval)
		if lost := time.Duration(*polls) * length; *polls < 10 || lost > time.Since(start)/20 {
			t.Errorf("%d polls, %v of %v; want some, and less than a twentieth", *polls, lost, time.Since(start))
		}
	})
}

func TestOneLongPollDoesNotMakeTheNextOnesRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue
		var polls *int
		q, polls = polling(func() error {
			if *polls == 10 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		defer q.ShutDown()
		addMany(q, 1000, Background)
		workOff(q, 1000, pollInterval)
		if *polls < 990 {
			t.Errorf("%d polls in 1000 intervals, of which one took long", *polls)
		}
	})
}

func TestThereIsNoPollAfterOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, polls := polling(func() error { return errors.New("no") })
		defer q.ShutDown()
		addMany(q, 100, Background)
		workOff(q, 100, pollInterval)
		if *polls != 1 {
			t.Errorf("%d polls, want the one that failed", *polls)
		}
	})
}

func TestAChangeOfAKeyInTheBacklogIsHandedOutDuringAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, result := onePolls(t)
		defer func() { result <- nil; q.ShutDown() }()
		q.Add("0-5", operation.Of(operation.Put), Live)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the poll, want the one that was changed", len(handedOut))
		}
	})
}

func TestNoBackgroundKeyIsHandedOutDuringAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, result := onePolls(t)
		defer func() { result <- nil; q.ShutDown() }()
		q.mu.Lock()
		q.ready.handedOut = OldestEvery - 1 // it is the turn of the oldest
		q.mu.Unlock()
		q.Add("live", operation.Of(operation.Put), Live)
		synctest.Wait()
		if len(handedOut) != 1 || (<-handedOut).Key != "live" {
			t.Error("want the live key, and nothing else")
		}
	})
}

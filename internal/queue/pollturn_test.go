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

// breathing is a queue whose workers breathe, in a synctest bubble, and how often they did.
func breathing(poll func() error) (*Queue, *int) {
	q, breaths := New(Options{}), 0
	q.SetPoll(func() error {
		breaths++
		return poll()
	})
	return q, &breaths
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

func TestBackgroundKeysInARowBreatheOnceInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 10 * time.Microsecond
		q, breaths := breathing(takes(length))
		defer q.ShutDown()
		time.Sleep(time.Second)
		addMany(q, 1000, Background)
		start := time.Now()
		workOff(q, 1000, breathEvery/100)
		// One before the first key, which may be a start's, and then one after each interval.
		if want := int(time.Since(start)/(breathEvery+length)) + 1; *breaths < want-1 || *breaths > want {
			t.Errorf("%d breaths in %v, want %d", *breaths, time.Since(start), want)
		}
	})
}

func TestALiveOrSecondaryKeyNeverBreathes(t *testing.T) {
	for _, prio := range []Priority{Secondary, Live} {
		synctest.Test(t, func(t *testing.T) {
			q, breaths := breathing(takes(time.Hour))
			defer q.ShutDown()
			time.Sleep(time.Second)
			addMany(q, 100, Background)
			addMany(q, 1000, prio)
			workOff(q, 1000, breathEvery)
			if *breaths != 0 {
				t.Errorf("%d breaths while keys of Priority %d were ready", *breaths, prio)
			}
		})
	}
}

// oneBreathes has one worker take a breath that lasts until it is let go, and another one wait for it.
func oneBreathes(t *testing.T) (q *Queue, handedOut chan Item, letGo chan error) {
	letGo, handedOut = make(chan error), make(chan Item, 10)
	q, _ = breathing(func() error { return <-letGo })
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
		t.Fatal("a background key was handed out during a breath")
	}
	return q, handedOut, letGo
}

func TestALiveKeyIsHandedOutDuringABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer q.ShutDown()
		q.Add("live", operation.Of(operation.Put), Live)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the breath, want the live one", len(handedOut))
		}
		if it := <-handedOut; it.Key != "live" {
			t.Errorf("%s was handed out during the breath", it.Key)
		}
		letGo <- nil
		if it := <-handedOut; it.Prio != Background {
			t.Errorf("%s was handed out after the breath", it.Key)
		}
	})
}

func TestALiveKeyThatComesDuringABreathGoesBeforeTheBackgroundKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue
		q, _ = breathing(func() error {
			q.Add("live", operation.Of(operation.Put), Live)
			return nil
		})
		defer q.ShutDown()
		time.Sleep(time.Second)
		addMany(q, 10, Background)
		if it, _ := q.Get(context.Background()); it.Key != "live" {
			t.Errorf("%s was handed out after the breath, want the live key", it.Key)
		}
	})
}

func TestAllWorkersGoOnAfterABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer q.ShutDown()
		letGo <- nil
		synctest.Wait()
		if len(handedOut) != 2 {
			t.Errorf("%d of 2 workers have a key after the breath", len(handedOut))
		}
	})
}

func TestAShutDownDoesNotWaitForABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		q.ShutDown()
		if _, ok := q.Get(context.Background()); ok {
			t.Error("a key was handed out after shutDown")
		}
		letGo <- nil
		synctest.Wait()
		if len(handedOut) != 0 {
			t.Error("a key was handed out after shutDown")
		}
	})
}

func TestNobodyBreathesWhoHadToWaitForAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, breaths := breathing(takes(0))
		defer q.ShutDown()
		go workOff(q, 1000, 0)
		for i := range 1000 {
			time.Sleep(10 * breathEvery)
			q.Add(fmt.Sprint(i), operation.Of(operation.Resync), Background)
		}
		synctest.Wait()
		if *breaths != 0 {
			t.Errorf("%d breaths of a queue that was empty before each key", *breaths)
		}
	})
}

func TestBreathsThatFreeNoProcessorBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 10 * time.Millisecond
		q, breaths := breathing(takes(length))
		defer q.ShutDown()
		addMany(q, 10_000, Background)
		start := time.Now()
		workOff(q, 10_000, breathEvery)
		if lost := time.Duration(*breaths) * length; *breaths < 10 || lost > time.Since(start)/20 {
			t.Errorf("%d breaths, %v of %v; want some, and less than a twentieth", *breaths, lost, time.Since(start))
		}
	})
}

func TestOneLongBreathDoesNotMakeTheNextOnesRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue
		var breaths *int
		q, breaths = breathing(func() error {
			if *breaths == 10 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		defer q.ShutDown()
		addMany(q, 1000, Background)
		workOff(q, 1000, breathEvery)
		if *breaths < 990 {
			t.Errorf("%d breaths in 1000 intervals, of which one took long", *breaths)
		}
	})
}

func TestThereIsNoBreathAfterOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, breaths := breathing(func() error { return errors.New("no") })
		defer q.ShutDown()
		addMany(q, 100, Background)
		workOff(q, 100, breathEvery)
		if *breaths != 1 {
			t.Errorf("%d breaths, want the one that failed", *breaths)
		}
	})
}

func TestAChangeOfAKeyInTheBacklogIsHandedOutDuringABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer func() { letGo <- nil; q.ShutDown() }()
		q.Add("0-5", operation.Of(operation.Put), Live)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the breath, want the one that was changed", len(handedOut))
		}
	})
}

func TestNoBackgroundKeyIsHandedOutDuringABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer func() { letGo <- nil; q.ShutDown() }()
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

package controllerruntime

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// breathing is a queue whose workers breathe, in a synctest bubble, and how often they did.
func breathing(poll func() error) (*queue, *int) {
	q, breaths := newQueue(queueOptions{}), 0
	q.breathes(func() error {
		breaths++
		return poll()
	})
	return q, &breaths
}

func takes(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

func addMany(q *queue, n int, prio priority) {
	for i := range n {
		q.add(fmt.Sprint(prio, "-", i), operations(OperationPut), prio)
	}
}

// workOff takes n keys, each of which takes so long.
func workOff(q *queue, n int, each time.Duration) {
	for range n {
		it, _ := q.get()
		time.Sleep(each)
		q.done(it.key)
	}
}

func TestBackgroundKeysInARowBreatheOnceInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 10 * time.Microsecond
		q, breaths := breathing(takes(length))
		defer q.shutDown()
		time.Sleep(time.Second)
		addMany(q, 1000, prioBackground)
		start := time.Now()
		workOff(q, 1000, breathEvery/100)
		// One before the first key, which may be a start's, and then one after each interval.
		if want := int(time.Since(start)/(breathEvery+length)) + 1; *breaths < want-1 || *breaths > want {
			t.Errorf("%d breaths in %v, want %d", *breaths, time.Since(start), want)
		}
	})
}

func TestALiveOrSecondaryKeyNeverBreathes(t *testing.T) {
	for _, prio := range []priority{prioSecondary, prioLive} {
		synctest.Test(t, func(t *testing.T) {
			q, breaths := breathing(takes(time.Hour))
			defer q.shutDown()
			time.Sleep(time.Second)
			addMany(q, 100, prioBackground)
			addMany(q, 1000, prio)
			workOff(q, 1000, breathEvery)
			if *breaths != 0 {
				t.Errorf("%d breaths while keys of priority %d were ready", *breaths, prio)
			}
		})
	}
}

// oneBreathes has one worker take a breath that lasts until it is let go, and another one wait for it.
func oneBreathes(t *testing.T) (q *queue, handedOut chan item, letGo chan error) {
	letGo, handedOut = make(chan error), make(chan item, 10)
	q, _ = breathing(func() error { return <-letGo })
	time.Sleep(time.Second)
	addMany(q, 10, prioBackground)
	for range 2 {
		go func() {
			if it, shutdown := q.get(); !shutdown {
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
		defer q.shutDown()
		q.add("live", operations(OperationPut), prioLive)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the breath, want the live one", len(handedOut))
		}
		if it := <-handedOut; it.key != "live" {
			t.Errorf("%s was handed out during the breath", it.key)
		}
		letGo <- nil
		if it := <-handedOut; it.prio != prioBackground {
			t.Errorf("%s was handed out after the breath", it.key)
		}
	})
}

func TestALiveKeyThatComesDuringABreathGoesBeforeTheBackgroundKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *queue
		q, _ = breathing(func() error {
			q.add("live", operations(OperationPut), prioLive)
			return nil
		})
		defer q.shutDown()
		time.Sleep(time.Second)
		addMany(q, 10, prioBackground)
		if it, _ := q.get(); it.key != "live" {
			t.Errorf("%s was handed out after the breath, want the live key", it.key)
		}
	})
}

func TestAllWorkersGoOnAfterABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer q.shutDown()
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
		q.shutDown()
		if _, shutdown := q.get(); !shutdown {
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
		defer q.shutDown()
		go workOff(q, 1000, 0)
		for i := range 1000 {
			time.Sleep(10 * breathEvery)
			q.add(fmt.Sprint(i), operations(OperationResync), prioBackground)
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
		defer q.shutDown()
		addMany(q, 10_000, prioBackground)
		start := time.Now()
		workOff(q, 10_000, breathEvery)
		if lost := time.Duration(*breaths) * length; *breaths < 10 || lost > time.Since(start)/20 {
			t.Errorf("%d breaths, %v of %v; want some, and less than a twentieth", *breaths, lost, time.Since(start))
		}
	})
}

func TestOneLongBreathDoesNotMakeTheNextOnesRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *queue
		var breaths *int
		q, breaths = breathing(func() error {
			if *breaths == 10 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		defer q.shutDown()
		addMany(q, 1000, prioBackground)
		workOff(q, 1000, breathEvery)
		if *breaths < 990 {
			t.Errorf("%d breaths in 1000 intervals, of which one took long", *breaths)
		}
	})
}

func TestThereIsNoBreathAfterOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, breaths := breathing(func() error { return errors.New("no") })
		defer q.shutDown()
		addMany(q, 100, prioBackground)
		workOff(q, 100, breathEvery)
		if *breaths != 1 {
			t.Errorf("%d breaths, want the one that failed", *breaths)
		}
	})
}

// With one processor nothing but a poll lets a goroutine run that waits for a file: the test never blocks otherwise, and
// the scheduler's own poll comes after 10 ms.
func TestAPollRunsWhoWaitsForWhatHasArrived(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := newPoller()
	must(t, err)
	defer p.close()
	read, write, err := os.Pipe()
	must(t, err)
	var got atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for buf := make([]byte, 1); ; got.Add(1) {
			if _, err := read.Read(buf); err != nil {
				return
			}
		}
	}()
	late := 0
	for i := range int64(1000) {
		_, err := write.Write([]byte{1})
		must(t, err)
		for polls := 1; ; polls++ { // the scheduler's own poll may come between, and who waits then runs a little later
			must(t, p.poll())
			if got.Load() == i+1 {
				break
			}
			if late++; polls == 100 {
				t.Fatalf("%d of %d have arrived after %d polls", got.Load(), i+1, polls)
			}
		}
	}
	if late > 100 {
		t.Errorf("%d polls of 1000 let nobody run", late)
	}
	must(t, write.Close())
	<-ended
	must(t, read.Close())
}

func TestAPollCostsNothingWhileAProcessorIsFree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64)) // more than this test's process has goroutines that run
	p, err := newPoller()
	must(t, err)
	must(t, p.close())                                                                     // a poll that used the pipe would fail
	eventually(t, "a poll finds a free processor", func() bool { return p.poll() == nil }) // a goroutine may be runnable for a moment
}

func TestAPollAfterCloseFails(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // or there could be one that is free
	p, err := newPoller()
	must(t, err)
	must(t, p.poll())
	must(t, p.close())
	if err := p.poll(); err == nil {
		t.Error("a poll after close did not fail")
	}
}

func TestAChangeOfAKeyInTheBacklogIsHandedOutDuringABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer func() { letGo <- nil; q.shutDown() }()
		q.add("0-5", operations(OperationPut), prioLive)
		synctest.Wait()
		if len(handedOut) != 1 {
			t.Fatalf("%d keys were handed out during the breath, want the one that was changed", len(handedOut))
		}
	})
}

func TestNoBackgroundKeyIsHandedOutDuringABreath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, handedOut, letGo := oneBreathes(t)
		defer func() { letGo <- nil; q.shutDown() }()
		q.mu.Lock()
		q.ready.handedOut = oldestEvery - 1 // it is the turn of the oldest
		q.mu.Unlock()
		q.add("live", operations(OperationPut), prioLive)
		synctest.Wait()
		if len(handedOut) != 1 || (<-handedOut).key != "live" {
			t.Error("want the live key, and nothing else")
		}
	})
}

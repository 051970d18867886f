package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadyKeysGoByPriorityThenFirstComeFirstServed(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("resync-1", opResync, prioBackground)
	q.add("secondary-1", opSecondary, prioSecondary)
	q.add("live-1", opPut, prioLive)
	q.add("resync-2", opResync, prioBackground)
	q.add("live-2", opPut, prioLive)
	q.add("secondary-2", opSecondary, prioSecondary)
	if got, want := q.depthByPriority(), [prioCount]int{2, 2, 2}; got != want {
		t.Errorf("depth by priority %v, want %v", got, want)
	}
	runKey(t, q, "live-1", opPut)
	runKey(t, q, "live-2", opPut)
	runKey(t, q, "secondary-1", opSecondary)
	runKey(t, q, "secondary-2", opSecondary)
	runKey(t, q, "resync-1", opResync)
	runKey(t, q, "resync-2", opResync)
	requireEmpty(t, q)
}

func TestRaisingAReadyKeyMovesIt(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("a", opResync, prioBackground)
	q.add("b", opResync, prioBackground)
	q.add("c", opPut, prioLive)
	q.add("b", opPut, prioLive)
	q.add("b", opResync, prioBackground) // does not lower it again
	if got, want := q.depthByPriority(), [prioCount]int{1, 0, 2}; got != want {
		t.Errorf("depth by priority %v, want %v", got, want)
	}
	runKey(t, q, "c", opPut)
	runKey(t, q, "b", opPut|opResync)
	runKey(t, q, "a", opResync)
	requireEmpty(t, q)
}

func TestKeyRaisedWhileItRunsComesBackRaised(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("a", opResync, prioBackground)
	takeKey(t, q, "a", opResync)
	q.add("a", opResync, prioBackground)
	q.add("b", opSecondary, prioSecondary)
	q.add("a", opPut, prioLive)
	q.done("a")
	runKey(t, q, "a", opPut|opResync)
	runKey(t, q, "b", opSecondary)
}

func TestEveryEighthHandOutIsTheOldestReadyKey(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	const old = 5
	for i := range old {
		q.add(fmt.Sprintf("old-%d", i), opResync, prioBackground)
	}
	var oldAt []int
	for n := 1; n <= 8*old; n++ { // a live change before each hand-out
		q.add(fmt.Sprintf("live-%d", n), opPut, prioLive)
		it, _ := q.get()
		q.done(it.key)
		if it.prio == prioBackground {
			if want := fmt.Sprintf("old-%d", len(oldAt)); it.key != want {
				t.Errorf("hand-out %d is %s, want the oldest, %s", n, it.key, want)
			}
			oldAt = append(oldAt, n)
		}
	}
	if fmt.Sprint(oldAt) != "[8 16 24 32 40]" {
		t.Errorf("under constant live load the old keys were handed out at %v", oldAt)
	}
}

func TestRaisedKeyKeepsItsAge(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("raised", opResync, prioBackground)
	q.add("old", opResync, prioBackground)
	for i := range 7 {
		q.add(fmt.Sprintf("live-%d", i), opPut, prioLive)
	}
	q.add("raised", opSecondary, prioSecondary)
	for i := range 7 {
		runKey(t, q, fmt.Sprintf("live-%d", i), opPut)
	}
	q.add("live", opPut, prioLive)
	runKey(t, q, "raised", opResync|opSecondary) // the eighth: ready before "old", though moved after it
	runKey(t, q, "live", opPut)
	runKey(t, q, "old", opResync)
}

func TestLiveChangeWaitsBehindAtMostOneOther(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	for i := range 1000 {
		q.add(fmt.Sprint(i), opResync, prioBackground)
	}
	for range 100 {
		q.add("live", opPut, prioLive)
		before := 0
		for {
			it, _ := q.get()
			q.done(it.key)
			if it.key == "live" {
				break
			}
			before++
		}
		if before > 1 {
			t.Fatalf("a live change waited behind %d others", before)
		}
	}
}

// One key is changed 10,000 times a second while a worker needs a millisecond for
// each run: it takes no more than every other hand-out.
func TestHotKeyDoesNotSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var hot sync.WaitGroup
		hot.Go(func() {
			for ctx.Err() == nil {
				q.add("hot", opPut, prioLive)
				time.Sleep(100 * time.Microsecond)
			}
		})
		advance(time.Second)
		for i := range 100 {
			q.add(fmt.Sprint(i), opPut, prioLive)
		}
		start, others, hots := time.Now(), 0, 0
		for others < 100 {
			it, _ := q.get()
			time.Sleep(time.Millisecond)
			q.done(it.key)
			if it.key == "hot" {
				hots++
			} else {
				others++
			}
		}
		if hots > 2 {
			t.Errorf("the hot key ran %d times before 100 others that were ready", hots)
		}
		if took := time.Since(start); took > 103*time.Millisecond {
			t.Errorf("100 others took %v", took)
		}
		cancel()
		hot.Wait()
		q.shutDown()
	})
}

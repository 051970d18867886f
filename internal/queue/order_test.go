package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

func TestReadyKeysGoByPriorityThenFirstComeFirstServed(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Add("resync-1", opResync, Background)
	q.Add("secondary-1", opSecondary, Secondary)
	q.Add("live-1", opPut, Live)
	q.Add("resync-2", opResync, Background)
	q.Add("live-2", opPut, Live)
	q.Add("secondary-2", opSecondary, Secondary)
	if got, want := q.depthByPriority(), [Bands]int{2, 2, 2}; got != want {
		t.Errorf("depth by Priority %v, want %v", got, want)
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
	q := New(Options{})
	defer q.ShutDown()
	q.Add("a", opResync, Background)
	q.Add("b", opResync, Background)
	q.Add("c", opPut, Live)
	q.Add("b", opPut, Live)
	q.Add("b", opResync, Background) // does not lower it again
	if got, want := q.depthByPriority(), [Bands]int{1, 0, 2}; got != want {
		t.Errorf("depth by Priority %v, want %v", got, want)
	}
	runKey(t, q, "c", opPut)
	runKey(t, q, "b", opPut|opResync)
	runKey(t, q, "a", opResync)
	requireEmpty(t, q)
}

func TestKeyRaisedWhileItRunsComesBackRaised(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Add("a", opResync, Background)
	takeKey(t, q, "a", opResync)
	q.Add("a", opResync, Background)
	q.Add("b", opSecondary, Secondary)
	q.Add("a", opPut, Live)
	q.Done("a")
	runKey(t, q, "a", opPut|opResync)
	runKey(t, q, "b", opSecondary)
}

func TestEveryEighthHandOutIsTheOldestReadyKey(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	const old = 5
	for i := range old {
		q.Add(fmt.Sprintf("old-%d", i), opResync, Background)
	}
	var oldAt []int
	for n := 1; n <= 8*old; n++ { // a live change before each hand-out
		q.Add(fmt.Sprintf("live-%d", n), opPut, Live)
		it, _ := q.Get(context.Background())
		q.Done(it.Key)
		if it.Prio == Background {
			if want := fmt.Sprintf("old-%d", len(oldAt)); it.Key != want {
				t.Errorf("hand-out %d is %s, want the oldest, %s", n, it.Key, want)
			}
			oldAt = append(oldAt, n)
		}
	}
	if fmt.Sprint(oldAt) != "[8 16 24 32 40]" {
		t.Errorf("under constant live load the old keys were handed out at %v", oldAt)
	}
}

func TestRaisedKeyKeepsItsAge(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Add("raised", opResync, Background)
	q.Add("old", opResync, Background)
	for i := range 7 {
		q.Add(fmt.Sprintf("live-%d", i), opPut, Live)
	}
	q.Add("raised", opSecondary, Secondary)
	for i := range 7 {
		runKey(t, q, fmt.Sprintf("live-%d", i), opPut)
	}
	q.Add("live", opPut, Live)
	runKey(t, q, "raised", opResync|opSecondary) // the eighth: ready before "old", though moved after it
	runKey(t, q, "live", opPut)
	runKey(t, q, "old", opResync)
}

func TestLiveChangeWaitsBehindAtMostOneOther(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	for i := range 1000 {
		q.Add(fmt.Sprint(i), opResync, Background)
	}
	for range 100 {
		q.Add("live", opPut, Live)
		before := 0
		for {
			it, _ := q.Get(context.Background())
			q.Done(it.Key)
			if it.Key == "live" {
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
		q := New(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var hot sync.WaitGroup
		hot.Go(func() {
			for ctx.Err() == nil {
				q.Add("hot", opPut, Live)
				time.Sleep(100 * time.Microsecond)
			}
		})
		advance(time.Second)
		for i := range 100 {
			q.Add(fmt.Sprint(i), opPut, Live)
		}
		start, others, hots := time.Now(), 0, 0
		for others < 100 {
			it, _ := q.Get(context.Background())
			time.Sleep(time.Millisecond)
			q.Done(it.Key)
			if it.Key == "hot" {
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
		q.ShutDown()
	})
}

// TestAKeyThatGoesAheadKeepsItsPriority: it goes before the backlog, once, and after what is live.
func TestAKeyThatGoesAheadKeepsItsPriority(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	put := operation.Of(operation.Put)
	for _, key := range []string{"a", "b", "c"} {
		q.Add(key, put, Background)
	}
	it, _ := q.Get(t.Context())
	if it.Ahead {
		t.Error("a key goes ahead that was only added")
	}
	q.GoAhead(it)
	q.Add("live", put, Live)
	q.Done(it.Key)
	var got []string
	for range 2 {
		it, _ = q.Get(t.Context())
		got = append(got, it.Key)
	}
	if !slices.Equal(got, []string{"live", "a"}) || !it.Ahead || it.Prio != Background {
		t.Errorf("handed out are %v, the last as %+v; want live, and then a, ahead, of the backlog", got, it)
	}
	q.GiveBack(it)
	q.Done(it.Key)
	if it, _ = q.Get(t.Context()); it.Key != "b" || it.Ahead {
		t.Errorf("%+v is next, want b: what went ahead once is of the backlog again", it)
	}
}

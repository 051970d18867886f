package queue

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func byNamespace(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// waitOf counts how many keys are handed out before that one.
func waitOf(t *testing.T, q *Queue, key string) (before int) {
	t.Helper()
	for ; q.depth() > 0; before++ {
		it, _ := q.Get(context.Background())
		q.Done(it.Key)
		if it.Key == key {
			return before
		}
	}
	t.Fatalf("%s was not handed out", key)
	return 0
}

// TestOneTenantsManyKeysDoNotDelayAnothersOne, whatever the priorities are.
func TestOneTenantsManyKeysDoNotDelayAnothersOne(t *testing.T) {
	const many = 100_000
	for _, test := range []struct {
		name     string
		of, one  Priority
		behindOf int // keys before it at most
	}{
		{"the same priority", Background, Background, 2}, // the other's turn, and the one in eight that is the oldest
		{"a lower priority", Live, Background, 2*OldestEvery - 1},
		{"a higher priority", Background, Live, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := New(Options{Group: byNamespace})
			defer q.ShutDown()
			for i := range many {
				q.Add(fmt.Sprintf("large/%d", i), opPut, test.of)
			}
			for n := range 100 { // wherever the eighth hand-out falls
				for range n % OldestEvery {
					it, _ := q.Get(context.Background())
					q.Done(it.Key)
				}
				q.Add("small/one", opPut, test.one)
				if before := waitOf(t, q, "small/one"); before > test.behindOf {
					t.Fatalf("it waited behind %d others, want %d at most", before, test.behindOf)
				}
			}
		})
	}
}

func TestGroupsTakeTurnsWithinOnePriority(t *testing.T) {
	q := New(Options{Group: byNamespace})
	defer q.ShutDown()
	for _, key := range []string{"a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "c/1"} {
		q.Add(key, opPut, Live)
	}
	for _, key := range []string{"a/1", "b/1", "c/1", "a/2", "b/2", "a/3", "a/4"} {
		runKey(t, q, key, opPut)
	}
	requireEmpty(t, q)
}

// TestGroupsThatAreEmptyCostNoMemory: a million come and go.
func TestGroupsThatAreEmptyCostNoMemory(t *testing.T) {
	q := New(Options{Group: byNamespace})
	defer q.ShutDown()
	before := heapNow()
	for i := range 100_000 {
		q.Add(fmt.Sprintf("group-%d/key", i), opPut, Priority(i%3))
	}
	for range 100_000 {
		it, _ := q.Get(context.Background())
		q.Done(it.Key)
	}
	requireEmpty(t, q)
	for i := range 1_000_000 {
		runKeyOf(t, q, fmt.Sprintf("group-%d/key", i))
	}
	if more := heapNow() - before; more > 200_000 {
		t.Errorf("%d bytes are kept", more)
	}
}

func runKeyOf(t *testing.T, q *Queue, key string) {
	t.Helper()
	q.Add(key, opPut, Live)
	runKey(t, q, key, opPut)
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAnyNumberIsAPriorityAndAHigherOneGoesFirst, also where each key has another one.
func TestAnyNumberIsAPriorityAndAHigherOneGoesFirst(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	keys := map[string]Priority{"live": Live, "secondary": Secondary, "background": Background, "most": 1<<31 - 1,
		"least": -1 << 31, "high": 7, "low": -7, "lower": -50}
	for key, prio := range keys {
		q.Add(key, opPut, prio)
	}
	if got, want := q.Counts().Ready, [Bands]int{3, 2, 3}; got != want {
		t.Errorf("the keys of the bands are %v, want %v", got, want)
	}
	for _, key := range []string{"most", "high", "live", "low", "secondary", "lower", "background"} {
		runKey(t, q, key, opPut)
	}
	runKey(t, q, "least", opPut)
	requireEmpty(t, q)
}

// TestTheHigherOfTwoPrioritiesHolds, of a key that is due, delayed or in hand.
func TestTheHigherOfTwoPrioritiesHolds(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	want := func(prio Priority) (it Item) {
		t.Helper()
		if it, _ = q.Get(context.Background()); it.Prio != prio {
			t.Errorf("it has priority %v, want %v", it.Prio, prio)
		}
		return it
	}
	q.Add("a", opPut, 3)
	q.Add("a", opPut, 5)
	q.Add("a", opPut, -5)
	it := want(5)
	q.AddAfter("a", opRetry, it.Prio-2, time.Hour, RetryDelay)
	q.Add("a", opPut, Background)
	q.Done("a")
	want(3)
	q.Add("a", opPut, -300)
	q.AddAfter("a", opRequeue, -200, time.Hour, RequeueDelay)
	q.Done("a")
	want(-200)
}

// TestTheRateIsExactAndBurstsAreBounded, with more workers than it needs.
func TestTheRateIsExactAndBurstsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Rate: Rate{Every: 100 * time.Millisecond, Burst: 3}})
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for {
					it, ok := q.Get(context.Background())
					if !ok {
						return
					}
					q.Spend(it.Key)
					mu.Lock()
					at = append(at, time.Since(start))
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					q.Done(it.Key)
				}
			})
		}
		expect := func(want ...time.Duration) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if fmt.Sprint(at) != fmt.Sprint(want) {
				t.Errorf("keys were handed out at %v, want %v", at, want)
			}
			at = nil
		}
		add := func(n int) {
			for i := range n {
				q.Add(fmt.Sprint(i), opPut, Live)
			}
		}
		const ms = time.Millisecond
		add(6)
		if c := q.Counts(); c.Delayed != 0 {
			t.Errorf("%d keys are delayed", c.Delayed)
		}
		advance(time.Second)
		expect(0, 0, 0, 100*ms, 200*ms, 300*ms)
		advance(time.Hour) // more than a burst is not saved up
		add(5)
		advance(time.Second)
		from := time.Hour + time.Second
		expect(from, from, from, from+100*ms, from+200*ms)
		if n := q.RateWaits(); n != 5 {
			t.Errorf("%d hand-outs had to wait for the rate", n)
		}
		q.ShutDown()
		workers.Wait()
	})
}

// TestTheHighestPriorityHasTheNextTurnOfTheRate, though it came last.
func TestTheHighestPriorityHasTheNextTurnOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Rate: Rate{Every: time.Second}})
		defer q.ShutDown()
		start := time.Now()
		q.Add("first", opPut, Live)
		q.Add("old", opPut, Background)
		for _, want := range []string{"first", "new", "old"} {
			it, _ := q.Get(context.Background())
			q.Spend(it.Key)
			if it.Key != want {
				t.Errorf("%s came after %v, want %s", it.Key, time.Since(start), want)
			}
			q.Done(it.Key)
			if want == "first" {
				q.Add("new", opPut, Live)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("three took %v, want 2s", took)
		}
	})
}

// TestWhatIsNotReconciledCostsNoRate: a key that is looked at and put back has back what it paid, and only that: no more
// than a burst is saved up, however late it is put back.
func TestWhatIsNotReconciledCostsNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Rate: Rate{Every: time.Second}})
		defer q.ShutDown()
		start := time.Now()
		for i := range 1000 {
			q.Add("looked at", opPut, Live)
			it, _ := q.Get(context.Background())
			switch i % 3 {
			case 0:
				q.GiveBack(it)
				q.Done(it.Key)
				q.Get(context.Background())
			case 1:
				q.Refund(it.Key)
				q.Refund(it.Key) // once is enough
			}
			q.Done("looked at")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("what is only looked at took %v", took)
		}
		reconcile := func(key string, want time.Duration) {
			t.Helper()
			it, _ := q.Get(context.Background())
			q.Spend(it.Key)
			q.Done(it.Key)
			if took := time.Since(start); took != want || it.Key != key {
				t.Errorf("%s was handed out after %v, want %s after %v", it.Key, took, key, want)
			}
		}
		for _, key := range []string{"slow", "b", "c"} {
			q.Add(key, opPut, Live)
		}
		slow, _ := q.Get(context.Background()) // it is not known yet whether it is reconciled
		reconcile("b", time.Second)
		time.Sleep(4 * time.Second)
		q.Done(slow.Key) // it was not, and a burst of one is saved up already
		q.Add("d", opPut, Live)
		reconcile("c", 5*time.Second)
		reconcile("d", 6*time.Second)
	})
}

// TestWhatTakesLongBesideItsReconcileHoldsUpNoOther: a worker says at once that a key is not reconciled.
func TestWhatTakesLongBesideItsReconcileHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Rate: Rate{Every: time.Hour}})
		defer q.ShutDown()
		start := time.Now()
		for _, key := range []string{"cascade", "due"} {
			q.Add(key, opPut, Live)
		}
		cascade, _ := q.Get(context.Background())
		waited := make(chan time.Duration)
		go func() {
			it, _ := q.Get(context.Background())
			q.Spend(it.Key)
			q.Done(it.Key)
			waited <- time.Since(start)
		}()
		time.Sleep(time.Minute)
		q.Refund(cascade.Key)
		if took := <-waited; took != time.Minute {
			t.Errorf("the other key was handed out after %v, want a minute", took)
		}
		q.Done(cascade.Key)
	})
}

// TestTheEndOfAWorkerLosesNoTurnOfTheRate: the key goes to another one.
func TestTheEndOfAWorkerLosesNoTurnOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{Rate: Rate{Every: time.Second}})
		q.Add("a", opPut, Live)
		takeKey(t, q, "a", opPut)
		q.Spend("a")
		q.Done("a")
		q.Add("b", opPut, Live)
		ended, end := context.WithCancel(context.Background())
		var workers sync.WaitGroup
		start, got := time.Now(), time.Duration(0)
		workers.Go(func() { q.Get(ended) })
		synctest.Wait()
		workers.Go(func() {
			if _, ok := q.Get(context.Background()); ok {
				got = time.Since(start)
			}
		})
		synctest.Wait()
		end()
		workers.Wait()
		if got != time.Second {
			t.Errorf("the other worker had the key after %v, want 1s", got)
		}
		q.Done("b")
		q.ShutDown()
	})
}

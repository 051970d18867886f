package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"k8s.io/client-go/util/workqueue"
)

var (
	opPut       = operation.Of(operation.Put)
	opDelete    = operation.Of(operation.Delete)
	opSecondary = operation.Of(operation.Secondary)
	opResync    = operation.Of(operation.Resync)
	opRetry     = operation.Of(operation.Retry)
	opRequeue   = operation.Of(operation.Requeue)
	opManual    = operation.Of(operation.Manual)
)

// takeKey gets the next key, which must be ready and must be the wanted one.
func takeKey(t *testing.T, q *Queue, key string, ops operation.Operations) {
	t.Helper()
	if q.depth() == 0 {
		t.Fatalf("nothing is ready, want %q", key)
	}
	got, ok := q.Get(context.Background())
	if !ok || got.Key != key || got.Ops != ops {
		t.Fatalf("got %q for %s (shutdown %v), want %q for %s", got.Key, got.Ops, !ok, key, ops)
	}
}

// runKey takes the wanted key and gives it back.
func runKey(t *testing.T, q *Queue, key string, ops operation.Operations) {
	t.Helper()
	takeKey(t, q, key, ops)
	q.Done(key)
}

// advance lets d pass on the bubble's clock, and what is due then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireEmpty fails if the queue holds anything: a ready or running key, a delay.
func requireEmpty(t *testing.T, q *Queue) {
	t.Helper()
	if c := q.Counts(); c != (Counts{}) {
		t.Fatalf("the queue is not empty: %+v", c)
	}
	if len(q.entries) != 0 {
		t.Fatalf("the queue remembers %d keys with nothing to come", len(q.entries))
	}
	if ids, lanes, levels := len(q.groups.ids), len(q.ready.byAge.lanes), len(q.ready.others.heap); ids+lanes+levels != 0 {
		t.Fatalf("the queue remembers %d groups, %d lanes and %d levels without keys", ids, lanes, levels)
	}
}

func TestKeyIsNeverHandedOutTwiceAtOnceUnder100Workers(t *testing.T) {
	const keys, adders, adds, workers = 20, 8, 2000, 100
	q := New(Options{})
	var inProgress [keys]atomic.Int32
	var handedOut atomic.Int64
	var working, adding sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				it, ok := q.Get(context.Background())
				if !ok {
					return
				}
				var i int
				if _, err := fmt.Sscan(it.Key, &i); err != nil {
					t.Error(err)
				}
				if n := inProgress[i].Add(1); n != 1 {
					t.Errorf("key %d is in progress %d times", i, n)
				}
				if it.Ops.Public() == 0 {
					t.Errorf("key %d came without a reason", i)
				}
				handedOut.Add(1)
				inProgress[i].Add(-1)
				q.Done(it.Key)
			}
		})
	}
	for a := range adders {
		adding.Go(func() {
			for n := range adds {
				q.Add(fmt.Sprint((n+a)%keys), opPut, modelPriorities[n%3])
			}
		})
	}
	adding.Wait()
	awaitQueue(t, "the queue is worked off", func() bool { c := q.Counts(); return c == (Counts{}) })
	q.ShutDown()
	working.Wait()
	if n := handedOut.Load(); n < keys || n > adders*adds {
		t.Errorf("%d hand-outs for %d events of %d keys", n, adders*adds, keys)
	}
	requireEmpty(t, q)
}

// awaitQueue polls until the condition holds.
func awaitQueue(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

func TestEventsDuringARunMakeExactlyOneMoreRunWithTheirUnion(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Add("a", opPut, Live)
	takeKey(t, q, "a", opPut)
	q.Add("a", opPut, Live)
	q.Add("a", opSecondary, Secondary)
	q.Add("a", opDelete, Live)
	q.Add("a", opResync, Background)
	if c := q.Counts(); q.depth() != 0 || c.Rerun != 1 || c.InProgress != 1 {
		t.Fatalf("while it runs: %+v", c)
	}
	q.Done("a")
	runKey(t, q, "a", opDelete|opSecondary|opResync)
	requireEmpty(t, q)
}

func TestReasonsGivenBackAreOlderThanWhatHappenedSince(t *testing.T) {
	for name, opts := range map[string]Options{
		"plain":     {},
		"debounced": {DebounceQuiet: time.Second, DebounceMax: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(opts)
				defer q.ShutDown()
				q.Add("a", opPut|opSecondary, Live)
				it, _ := q.Get(context.Background())
				q.Add("a", opDelete, Live)
				q.GiveBack(it)
				q.Done("a")
				advance(time.Second)
				runKey(t, q, "a", opDelete|opSecondary)

				q.GiveBack(it)
				runKey(t, q, "a", opPut|opSecondary)
				requireEmpty(t, q)
			})
		})
	}
}

func TestEventsOfAReadyKeyMerge(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	for range 10 {
		q.Add("a", opSecondary, Secondary)
		q.Add("a", opPut, Live)
	}
	runKey(t, q, "a", opPut|opSecondary)
	requireEmpty(t, q)
}

func TestItemTellsPriorityAndWhenItsFirstReasonCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		first := time.Now()
		q.Add("a", opResync, Background)
		advance(time.Second)
		q.Add("a", opPut, Live)
		advance(time.Second)
		if got := q.oldestReady(); got != 2*time.Second {
			t.Errorf("oldest ready key is %v old", got)
		}
		it, _ := q.Get(context.Background())
		if it.Prio != Live || !it.Added.Equal(first) {
			t.Errorf("got %+v", it)
		}
		second := time.Now()
		q.Add("a", opPut, Live)
		advance(time.Second)
		q.Done("a")
		if got := q.oldestReady(); got != 0 {
			t.Errorf("became ready just now, but is %v old", got)
		}
		if it, _ := q.Get(context.Background()); !it.Added.Equal(second) {
			t.Errorf("its reason came at %v, got %v", second, it.Added)
		}
	})
}

func TestGetBlocksUntilAKeyIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		start := time.Now()
		q.AddAfter("a", opRequeue, Background, time.Minute, RequeueDelay)
		if it, _ := q.Get(context.Background()); it.Key != "a" || time.Since(start) != time.Minute {
			t.Errorf("got %q after %v", it.Key, time.Since(start))
		}
	})
}

func TestKeyThatIsReadyAgainWakesAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		q.Add("a", opPut, Live)
		takeKey(t, q, "a", opPut)
		q.Add("a", opSecondary, Live)
		taken := make(chan Item)
		go func() {
			it, _ := q.Get(context.Background())
			taken <- it
		}()
		synctest.Wait()
		q.Done("a")
		if it := <-taken; it.Ops != opSecondary {
			t.Errorf("got %+v", it)
		}
	})
}

func TestShutDownUnblocksGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		var unblocked atomic.Int32
		for range 3 {
			go func() {
				if _, ok := q.Get(context.Background()); !ok {
					unblocked.Add(1)
				}
			}()
		}
		synctest.Wait()
		q.ShutDown()
		synctest.Wait()
		if unblocked.Load() != 3 {
			t.Errorf("%d of 3 unblocked", unblocked.Load())
		}
	})
}

func TestNothingIsHandedOutAfterShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{DebounceQuiet: time.Second, DebounceMax: time.Second})
		q.Add("held", opPut, Live)
		q.Add("ready", opResync, Background)
		q.Add("running", opResync, Background)
		runKey(t, q, "ready", opResync)
		takeKey(t, q, "running", opResync)
		q.Add("ready", opResync, Background)
		q.AddAfter("later", opPut, Live, time.Second, UserDelay)
		q.ShutDown()
		q.ShutDown()
		q.Add("new", opPut, Live)
		q.AddAfter("now", opPut, Live, 0, UserDelay)
		q.AddAfter("running", opRetry, Background, time.Second, RetryDelay)
		q.CancelDelays("later")
		q.CancelDelays("held")
		advance(time.Hour)
		q.Done("running")
		if it, ok := q.Get(context.Background()); ok {
			t.Errorf("handed out %q", it.Key)
		}
	})
}

func TestWaitIdleWaitsForKeysInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		if err := q.WaitIdle(t.Context()); err != nil {
			t.Errorf("with none in progress: %v", err)
		}
		q.Add("a", opPut, Live)
		q.Add("b", opPut, Live)
		takeKey(t, q, "a", opPut)
		takeKey(t, q, "b", opPut)
		q.Add("a", opPut, Live)
		q.ShutDown()

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.WaitIdle(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with two in progress: %v", err)
		}
		var idle atomic.Int32
		for range 2 {
			go func() {
				if q.WaitIdle(t.Context()) == nil {
					idle.Add(1)
				}
			}()
		}
		q.Done("a")
		synctest.Wait()
		if idle.Load() != 0 {
			t.Error("idle with one in progress")
		}
		q.Done("b")
		synctest.Wait()
		if idle.Load() != 2 {
			t.Errorf("%d of 2 saw that it is idle", idle.Load())
		}
	})
}

func TestDoneOfAKeyNotInProgressDoesNothing(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Done("never seen")
	q.Add("a", opPut, Live)
	q.Done("a")
	runKey(t, q, "a", opPut)
	q.Done("a")
	requireEmpty(t, q)
}

// client-go's workqueue is the measure of what a queue of keys does: for events of
// one Priority ours hands out the same keys in the same order.
func TestQueueDedupsAsClientGosWorkqueueDoes(t *testing.T) {
	const seed = 20260102
	random := rand.New(rand.NewPCG(seed, seed))
	ours, theirs := New(Options{}), workqueue.NewTyped[string]()
	defer theirs.ShutDown()
	defer ours.ShutDown()
	var running []string
	for step := range 200_000 {
		switch random.IntN(4) {
		case 0, 1:
			key := fmt.Sprint(random.IntN(20))
			ours.Add(key, opPut, Live)
			theirs.Add(key)
		case 2:
			if theirs.Len() > 0 {
				got, _ := ours.Get(context.Background())
				want, _ := theirs.Get()
				if got.Key != want {
					t.Fatalf("step %d: got %s, want %s", step, got.Key, want)
				}
				running = append(running, want)
			}
		case 3:
			if len(running) > 0 {
				i := random.IntN(len(running))
				ours.Done(running[i])
				theirs.Done(running[i])
				running = slices.Delete(running, i, i+1)
			}
		}
		if ours.depth() != theirs.Len() {
			t.Fatalf("step %d: depth %d, want %d", step, ours.depth(), theirs.Len())
		}
	}
}

func TestKeyWithoutAReasonIsManual(t *testing.T) {
	q := New(Options{})
	defer q.ShutDown()
	q.Add("a", 0, Live)
	runKey(t, q, "a", opManual)
	q.AddAfter("a", 0, Background, 0, RetryDelay)
	runKey(t, q, "a", opManual)
	requireEmpty(t, q)
}

func TestHundredThousandKeysLeaveNothingBehind(t *testing.T) {
	const keys = 100_000
	q := New(Options{})
	for i := range keys {
		q.Add(fmt.Sprint(i), opPut, Background)
	}
	if q.depth() != keys {
		t.Fatalf("depth %d", q.depth())
	}
	var workers sync.WaitGroup
	var seen sync.Map
	var left atomic.Int64
	left.Store(keys)
	for range 8 {
		workers.Go(func() {
			for {
				it, ok := q.Get(context.Background())
				if !ok {
					return
				}
				if _, twice := seen.LoadOrStore(it.Key, true); twice {
					t.Errorf("%s was handed out twice", it.Key)
				}
				q.Done(it.Key)
				if left.Add(-1) == 0 {
					q.ShutDown()
				}
			}
		})
	}
	workers.Wait()
	requireEmpty(t, q)
}

func TestBurstLeavesMemoryFlat(t *testing.T) {
	const keys, bytesPerKey = 200_000, 8
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	q := New(Options{})
	defer q.ShutDown()
	before := heapInUse()
	for round := range 3 {
		for _, name := range names {
			q.Add(name, opPut, Background)
		}
		for range names {
			it, _ := q.Get(context.Background())
			q.Done(it.Key)
		}
		if grown := heapInUse() - before; grown > keys*bytesPerKey {
			t.Errorf("after burst %d of %d keys %d KiB stay", round+1, keys, grown>>10)
		}
	}
	runtime.KeepAlive(names)
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first may have swept only what an earlier one marked
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// depth returns the number of keys that wait for a worker.
func (q *Queue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

// Pending returns why the next run of a key is due or delayed; a user's delay apart.
func (q *Queue) Pending(key string) operation.Operations {
	known := q.Look(key)
	if known.Wait.IsSet() {
		return known.Wait.Ops
	}
	return known.Due
}

func (q *Queue) depthByPriority() [Bands]int { return q.Counts().Ready }
func (q *Queue) timersPending() int          { return q.Counts().Delayed }
func (q *Queue) oldestReady() time.Duration  { return q.Counts().Oldest }

func TestGetReturnsWhenItsContextEndsAndLosesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		defer q.ShutDown()
		first, endFirst := context.WithCancel(t.Context())
		ended, taken := make(chan bool, 1), make(chan Item, 1)
		go func() {
			_, ok := q.Get(first)
			ended <- !ok
		}()
		go func() {
			if it, ok := q.Get(t.Context()); ok {
				taken <- it
			}
		}()
		synctest.Wait()
		endFirst()
		q.Add("a", opPut, Live) // it may have woken the one whose context has ended
		if !<-ended {
			t.Error("a key was handed out after the context had ended")
		}
		if it := <-taken; it.Key != "a" {
			t.Errorf("got %+v", it)
		}
		q.Add("b", opPut, Live)
		if _, ok := q.Get(first); ok {
			t.Error("handed out under a context that has ended")
		}
	})
}

// TestRunningIsFromGetToDone, also while the key is due again.
func TestRunningIsFromGetToDone(t *testing.T) {
	q := New(Options{})
	is := func(running bool, when string) {
		t.Helper()
		if q.Running("a") != running {
			t.Errorf("running should be %v %s", running, when)
		}
	}
	is(false, "of a key that nobody added")
	q.Add("a", opPut, Live)
	is(false, "before a worker has it")
	takeKey(t, q, "a", opPut)
	is(true, "while a worker has it")
	q.Add("a", opDelete, Live)
	is(true, "although it is due again")
	q.Done("a")
	is(false, "while it waits for its next run")
	runKey(t, q, "a", opDelete)
	is(false, "in the end")
}

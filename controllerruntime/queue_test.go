package controllerruntime

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

	"k8s.io/client-go/util/workqueue"
)

var (
	opPut       = operations(OperationPut)
	opDelete    = operations(OperationDelete)
	opSecondary = operations(OperationSecondary)
	opResync    = operations(OperationResync)
	opRetry     = operations(OperationRetry)
	opRequeue   = operations(OperationRequeue)
	opManual    = operations(OperationManual)
)

// takeKey gets the next key, which must be ready and must be the wanted one.
func takeKey(t *testing.T, q *queue, key string, ops Operations) {
	t.Helper()
	if q.depth() == 0 {
		t.Fatalf("nothing is ready, want %q", key)
	}
	got, shutdown := q.get()
	if shutdown || got.key != key || got.ops != ops {
		t.Fatalf("got %q for %s (shutdown %v), want %q for %s", got.key, got.ops, shutdown, key, ops)
	}
}

// runKey takes the wanted key and gives it back.
func runKey(t *testing.T, q *queue, key string, ops Operations) {
	t.Helper()
	takeKey(t, q, key, ops)
	q.done(key)
}

// advance lets d pass on the bubble's clock, and what is due then happen.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireEmpty fails if the queue holds anything: a ready or running key, a delay.
func requireEmpty(t *testing.T, q *queue) {
	t.Helper()
	if c := q.counts(); c != (queueCounts{}) {
		t.Fatalf("the queue is not empty: %+v", c)
	}
	if len(q.entries) != 0 {
		t.Fatalf("the queue remembers %d keys with nothing to come", len(q.entries))
	}
}

func TestKeyIsNeverHandedOutTwiceAtOnceUnder100Workers(t *testing.T) {
	const keys, adders, adds, workers = 20, 8, 2000, 100
	q := newQueue(queueOptions{})
	var inProgress [keys]atomic.Int32
	var handedOut atomic.Int64
	var working, adding sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				it, shutdown := q.get()
				if shutdown {
					return
				}
				var i int
				if _, err := fmt.Sscan(it.key, &i); err != nil {
					t.Error(err)
				}
				if n := inProgress[i].Add(1); n != 1 {
					t.Errorf("key %d is in progress %d times", i, n)
				}
				if it.ops.public() == 0 {
					t.Errorf("key %d came without a reason", i)
				}
				handedOut.Add(1)
				inProgress[i].Add(-1)
				q.done(it.key)
			}
		})
	}
	for a := range adders {
		adding.Go(func() {
			for n := range adds {
				q.add(fmt.Sprint((n+a)%keys), opPut, priority(n%int(prioCount)))
			}
		})
	}
	adding.Wait()
	awaitQueue(t, "the queue is worked off", func() bool { c := q.counts(); return c == (queueCounts{}) })
	q.shutDown()
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
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("a", opPut, prioLive)
	takeKey(t, q, "a", opPut)
	q.add("a", opPut, prioLive)
	q.add("a", opSecondary, prioSecondary)
	q.add("a", opDelete, prioLive)
	q.add("a", opResync, prioBackground)
	if c := q.counts(); q.depth() != 0 || c.rerun != 1 || c.inProgress != 1 {
		t.Fatalf("while it runs: %+v", c)
	}
	q.done("a")
	runKey(t, q, "a", opDelete|opSecondary|opResync)
	requireEmpty(t, q)
}

func TestReasonsGivenBackAreOlderThanWhatHappenedSince(t *testing.T) {
	for name, opts := range map[string]queueOptions{
		"plain":     {},
		"debounced": {debounceQuiet: time.Second, debounceMax: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(opts)
				defer q.shutDown()
				q.add("a", opPut|opSecondary, prioLive)
				it, _ := q.get()
				q.add("a", opDelete, prioLive)
				q.giveBack(it)
				q.done("a")
				advance(time.Second)
				runKey(t, q, "a", opDelete|opSecondary)

				q.giveBack(it)
				runKey(t, q, "a", opPut|opSecondary)
				requireEmpty(t, q)
			})
		})
	}
}

func TestEventsOfAReadyKeyMerge(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	for range 10 {
		q.add("a", opSecondary, prioSecondary)
		q.add("a", opPut, prioLive)
	}
	runKey(t, q, "a", opPut|opSecondary)
	requireEmpty(t, q)
}

func TestItemTellsPriorityAndWhenItsFirstReasonCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		first := time.Now()
		q.add("a", opResync, prioBackground)
		advance(time.Second)
		q.add("a", opPut, prioLive)
		advance(time.Second)
		if got := q.oldestReady(); got != 2*time.Second {
			t.Errorf("oldest ready key is %v old", got)
		}
		it, _ := q.get()
		if it.prio != prioLive || !it.added.Equal(first) {
			t.Errorf("got %+v", it)
		}
		second := time.Now()
		q.add("a", opPut, prioLive)
		advance(time.Second)
		q.done("a")
		if got := q.oldestReady(); got != 0 {
			t.Errorf("became ready just now, but is %v old", got)
		}
		if it, _ := q.get(); !it.added.Equal(second) {
			t.Errorf("its reason came at %v, got %v", second, it.added)
		}
	})
}

func TestGetBlocksUntilAKeyIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		start := time.Now()
		q.addAfter("a", opRequeue, prioBackground, time.Minute, timerRequeue)
		if it, _ := q.get(); it.key != "a" || time.Since(start) != time.Minute {
			t.Errorf("got %q after %v", it.key, time.Since(start))
		}
	})
}

func TestKeyThatIsReadyAgainWakesAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		defer q.shutDown()
		q.add("a", opPut, prioLive)
		takeKey(t, q, "a", opPut)
		q.add("a", opSecondary, prioLive)
		taken := make(chan item)
		go func() {
			it, _ := q.get()
			taken <- it
		}()
		synctest.Wait()
		q.done("a")
		if it := <-taken; it.ops != opSecondary {
			t.Errorf("got %+v", it)
		}
	})
}

func TestShutDownUnblocksGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		var unblocked atomic.Int32
		for range 3 {
			go func() {
				if _, shutdown := q.get(); shutdown {
					unblocked.Add(1)
				}
			}()
		}
		synctest.Wait()
		q.shutDown()
		synctest.Wait()
		if unblocked.Load() != 3 {
			t.Errorf("%d of 3 unblocked", unblocked.Load())
		}
	})
}

func TestNothingIsHandedOutAfterShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{debounceQuiet: time.Second, debounceMax: time.Second})
		q.add("held", opPut, prioLive)
		q.add("ready", opResync, prioBackground)
		q.add("running", opResync, prioBackground)
		runKey(t, q, "ready", opResync)
		takeKey(t, q, "running", opResync)
		q.add("ready", opResync, prioBackground)
		q.addAfter("later", opPut, prioLive, time.Second, timerUser)
		q.shutDown()
		q.shutDown()
		q.add("new", opPut, prioLive)
		q.addAfter("now", opPut, prioLive, 0, timerUser)
		q.addAfter("running", opRetry, prioBackground, time.Second, timerRetry)
		q.drop("later")
		q.drop("held")
		advance(time.Hour)
		q.done("running")
		if it, shutdown := q.get(); !shutdown {
			t.Errorf("handed out %q", it.key)
		}
	})
}

func TestWaitIdleWaitsForKeysInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{})
		if err := q.waitIdle(t.Context()); err != nil {
			t.Errorf("with none in progress: %v", err)
		}
		q.add("a", opPut, prioLive)
		q.add("b", opPut, prioLive)
		takeKey(t, q, "a", opPut)
		takeKey(t, q, "b", opPut)
		q.add("a", opPut, prioLive)
		q.shutDown()

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.waitIdle(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with two in progress: %v", err)
		}
		var idle atomic.Int32
		for range 2 {
			go func() {
				if q.waitIdle(t.Context()) == nil {
					idle.Add(1)
				}
			}()
		}
		q.done("a")
		synctest.Wait()
		if idle.Load() != 0 {
			t.Error("idle with one in progress")
		}
		q.done("b")
		synctest.Wait()
		if idle.Load() != 2 {
			t.Errorf("%d of 2 saw that it is idle", idle.Load())
		}
	})
}

func TestDoneOfAKeyNotInProgressDoesNothing(t *testing.T) {
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.done("never seen")
	q.add("a", opPut, prioLive)
	q.done("a")
	runKey(t, q, "a", opPut)
	q.done("a")
	requireEmpty(t, q)
}

// client-go's workqueue is the measure of what a queue of keys does: for events of
// one priority ours hands out the same keys in the same order.
func TestQueueDedupsAsClientGosWorkqueueDoes(t *testing.T) {
	const seed = 20260102
	random := rand.New(rand.NewPCG(seed, seed))
	ours, theirs := newQueue(queueOptions{}), workqueue.NewTyped[string]()
	defer theirs.ShutDown()
	defer ours.shutDown()
	var running []string
	for step := range 200_000 {
		switch random.IntN(4) {
		case 0, 1:
			key := fmt.Sprint(random.IntN(20))
			ours.add(key, opPut, prioLive)
			theirs.Add(key)
		case 2:
			if theirs.Len() > 0 {
				got, _ := ours.get()
				want, _ := theirs.Get()
				if got.key != want {
					t.Fatalf("step %d: got %s, want %s", step, got.key, want)
				}
				running = append(running, want)
			}
		case 3:
			if len(running) > 0 {
				i := random.IntN(len(running))
				ours.done(running[i])
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
	q := newQueue(queueOptions{})
	defer q.shutDown()
	q.add("a", 0, prioLive)
	runKey(t, q, "a", opManual)
	q.addAfter("a", 0, prioBackground, 0, timerRetry)
	runKey(t, q, "a", opManual)
	requireEmpty(t, q)
}

func TestHundredThousandKeysLeaveNothingBehind(t *testing.T) {
	const keys = 100_000
	q := newQueue(queueOptions{})
	for i := range keys {
		q.add(fmt.Sprint(i), opPut, prioBackground)
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
				it, shutdown := q.get()
				if shutdown {
					return
				}
				if _, twice := seen.LoadOrStore(it.key, true); twice {
					t.Errorf("%s was handed out twice", it.key)
				}
				q.done(it.key)
				if left.Add(-1) == 0 {
					q.shutDown()
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
	q := newQueue(queueOptions{})
	defer q.shutDown()
	before := heapInUse()
	for round := range 3 {
		for _, name := range names {
			q.add(name, opPut, prioBackground)
		}
		for range names {
			it, _ := q.get()
			q.done(it.key)
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
func (q *queue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

func (q *queue) depthByPriority() [prioCount]int { return q.counts().ready }
func (q *queue) inProgress() int                 { return q.counts().inProgress }
func (q *queue) timersPending() int              { return q.counts().timers }
func (q *queue) oldestReady() time.Duration      { return q.counts().oldest }

// pendingOps returns why the key's next run will be, as far as that is known: of a
// key that is due or whose run is delayed. A user's delay does not count.
func (q *queue) pendingOps(key string) Operations {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch e := q.entries[key]; {
	case e == nil:
		return 0
	case e.wait != nil:
		return e.wait.ops
	default:
		return e.ops
	}
}

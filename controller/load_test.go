package controller

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// putMany puts a document to each of the keys, pipelined, and returns when the server has them all.
func (w *world) putMany(keys int, name func(int) string, document func(int) string) {
	w.t.Helper()
	for i := range keys {
		_, err := w.js.PublishAsync("$KV.sites."+name(i), []byte(document(i)), jetstream.WithStallWait(time.Minute))
		must(w.t, err)
	}
	<-w.js.PublishAsyncComplete()
}

func keyNumber(i int) string { return fmt.Sprintf("key-%06d", i) }

// once counts reconciles per key.
type once struct {
	mu    sync.Mutex
	calls map[string]int
	total int
}

func newOnce() *once { return &once{calls: map[string]int{}} }

func (o *once) Reconcile(_ context.Context, req Request) (Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[req.Key]++
	o.total++
	return Result{}, nil
}

func (o *once) all() (keys, total int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls), o.total
}

// eventuallyGrows waits for a count.
func eventuallyGrows(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	natstest.Eventually(t, what, func() bool { return count() >= want })
}

// TestManyKeysEnqueuedAtOnceAreEachReconciledOnce, and again when they are enqueued again. They leave nothing behind.
func TestManyKeysEnqueuedAtOnceAreEachReconciledOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const keys = 10_000
		w := newWorld(t)
		var current atomic.Pointer[once]
		c, err := New("sites", w.sites(), ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			return current.Load().Reconcile(ctx, req)
		}), WithoutTeardown(), WithWorkers(8), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
		round := func() int64 {
			t.Helper()
			current.Store(newOnce())
			for i := range keys {
				c.Enqueue(keyNumber(i), OperationManual)
			}
			synctest.Wait()
			if n, total := current.Load().all(); n != keys || total != keys {
				t.Errorf("%d keys were reconciled, all together %d times", n, total)
			}
			return heapInUse()
		}
		before := round()
		after := round()
		// The second round holds its counts as the first did; the queue holds nothing of either.
		if grown, most := after-before, int64(1<<19+35*keys); grown > most {
			t.Errorf("the heap has grown by %d bytes from one round to the next, want at most %d", grown, most)
		}
		if s := c.Stats(); s.Failing != 0 || s.Delayed != 0 || s.Remembered != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

// TestAnInitialListIsReconciledOnceAndLeavesNothingBehindWhenItGoes counts what the engine keeps per key, with records.
func TestAnInitialListIsReconciledOnceAndLeavesNothingBehindWhenItGoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const keys = 100
		sites := w.sites()
		w.putMany(keys, keyNumber, func(i int) string { return fmt.Sprintf(`{"spec":{"pages":%d}}`, i) })
		counted := newOnce()
		c, err := New("sites", sites, counted, WithWorkers(8), WithResyncInterval(0))
		must(t, err)
		r := w.run(c)
		eventuallyGrows(t, "keys reconciled", keys, func() int { n, _ := counted.all(); return n })
		idle(t, c)
		if n, total := counted.all(); n != total {
			t.Errorf("%d keys were reconciled %d times", n, total)
		}
		for i := range keys {
			_, err := w.js.PublishMsgAsync(deleteMarker(keyNumber(i)), jetstream.WithStallWait(time.Minute))
			must(t, err)
		}
		eventuallyGrows(t, "keys torn down", keys, func() int { return int(c.Stats().TornDown) })
		idle(t, c)
		natstest.Eventually(t, "the caches are empty", func() bool {
			return len(sites.Informer().GetStore().ListKeys()) == 0 && len(sites.Records().Keys()) == 0
		})
		r.halt() // so that its state can be read
		if n := c.Stats().Remembered; n != 0 {
			t.Errorf("%d are left behind", n)
		}
	})
}

// TestASlowReconcilerBlocksNeitherItsCacheNorOthers: while it is held its informer takes everything in, another
// controller on the same client goes on, and afterwards it sees the last state of every key.
func TestASlowReconcilerBlocksNeitherItsCacheNorOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const keys, rounds = 50, 10
		g := newGate()
		var open atomic.Bool
		var mu sync.Mutex
		slow, quick := map[string]int{}, map[string]int{}
		sees := func(seen map[string]int) ReconcilerFunc {
			return func(_ context.Context, req Request) (Result, error) {
				s, err := sites.Lister().Get(req.Key)
				if err == nil {
					mu.Lock()
					seen[req.Key] = s.Spec.Pages
					mu.Unlock()
				}
				return Result{}, ignoreNotFound(err)
			}
		}
		first, err := New("slow", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !open.Load() {
				if _, err := g.Reconcile(ctx, req); err != nil {
					return Result{}, err
				}
			}
			return sees(slow)(ctx, req)
		}), WithoutTeardown(), shortGrace())
		must(t, err)
		second, err := New("quick", sites, sees(quick), WithWorkers(2))
		must(t, err)
		w.run(first)
		w.run(second)
		must(t, sites.Create(t.Context(), newSite("held", "one")))
		g.enter(t)
		for round := range rounds {
			w.putMany(keys, keyNumber, func(int) string { return fmt.Sprintf(`{"spec":{"pages":%d}}`, round+1) })
		}
		must(t, sites.Create(t.Context(), newSite("last", "one"))) // its event is behind all others
		sawLast := func(seen map[string]int) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for i := range keys {
					if seen[keyNumber(i)] == rounds {
						n++
					}
				}
				return n == keys
			}
		}
		natstest.Eventually(t, "the other controller saw the last state of every key", sawLast(quick))
		natstest.Eventually(t, "the slow one's queue knows every key", func() bool {
			return first.Stats().Ready[0] == keys+1
		})
		if first.Stats().Running != 1 {
			t.Errorf("%d run, want the one that is held", first.Stats().Running)
		}
		open.Store(true)
		g.leave <- nil
		natstest.Eventually(t, "the slow one saw the last state of every key", sawLast(slow))
		idle(t, first)
		if n := first.Stats().Reconciles; n != keys+2 {
			t.Errorf("%d reconciles for %d keys that changed %d times while one was held, and two: want one each", n, keys,
				rounds)
		}
	})
}

// TestDebounceWaitsForQuietAndNeverLongerThanMax, to the millisecond.
func TestDebounceWaitsForQuietAndNeverLongerThanMax(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const quiet, most = 100 * time.Millisecond, 600 * time.Millisecond
		w := newWorld(t)
		sites := w.sites()
		seen := make(chan time.Time, 100)
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			seen <- time.Now()
			return Result{}, nil
		}), WithDebounce(quiet, most), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it works", func() bool { return c.Stats().Leading })
		for _, test := range []struct {
			changes int // a hair less than quiet apart
			waits   time.Duration
		}{{1, quiet}, {3, 2*(quiet-time.Millisecond) + quiet}, {7, most}} {
			began := time.Now()
			for n := range test.changes {
				if n > 0 {
					time.Sleep(quiet - time.Millisecond)
				}
				w.put("sites", "home", fmt.Sprintf(`{"spec":{"pages":%d}}`, n))
			}
			if waited := receive(t, "the reconcile", seen).Sub(began); waited != test.waits {
				t.Errorf("%d changes: reconciled %v after the first, want %v", test.changes, waited, test.waits)
			}
			idle(t, c)
			if n := len(seen); n != 0 {
				t.Errorf("%d changes: %d reconciles more", test.changes, n)
			}
		}
	})
}

func deleteMarker(key string) *nats.Msg {
	return &nats.Msg{Subject: "$KV.sites." + key, Header: nats.Header{"KV-Operation": {"DEL"}}}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first may have swept only what an earlier one marked
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

package controller

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// putMany puts a document to each of the keys, pipelined, and returns when the server has them all.
func (w *world) putMany(keys int, name func(int) string, document func(int) string) {
	w.t.Helper()
	for i := range keys {
		_, err := w.js.PublishAsync("$KV.sites."+name(i), []byte(document(i)), jetstream.WithStallWait(patience))
		must(w.t, err)
	}
	select {
	case <-w.js.PublishAsyncComplete():
	case <-time.After(4 * patience):
		w.t.Fatal("the server did not take all documents")
	}
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

// eventuallyGrows waits for a count that may take long on a busy machine: it fails only when it stands still.
func eventuallyGrows(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	last, since := -1, time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		n := count()
		if n >= want {
			return
		}
		if n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > patience {
			t.Fatalf("%s: stands still at %d of %d", what, n, want)
		}
		<-tick.C
	}
}

func TestManyKeysEnqueuedAtOnceAreEachReconciledOnce(t *testing.T) { eachReconciledOnce(t, 10_000) }

func TestSoakHundredThousandKeysEnqueuedAtOnceAreEachReconciledOnce(t *testing.T) {
	eachReconciledOnce(t, 100_000)
}

// eachReconciledOnce enqueues keys at once, and again: each is reconciled once each time, and leaves nothing behind.
func eachReconciledOnce(t *testing.T, keys int) {
	w := newWorld(t)
	var first, second atomic.Pointer[once]
	var current atomic.Pointer[once]
	c, err := New("sites", w.sites(), ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		return current.Load().Reconcile(ctx, req)
	}), WithoutTeardown(), WithWorkers(8), WithResyncInterval(0))
	must(t, err)
	w.run(c)
	eventually(t, "it works", func() bool { return c.Stats().Leading })
	round := func(kept *atomic.Pointer[once]) int64 {
		t.Helper()
		kept.Store(newOnce())
		current.Store(kept.Load())
		start := time.Now()
		for i := range keys {
			c.Enqueue(keyNumber(i), OperationManual)
		}
		eventuallyGrows(t, "keys reconciled", keys, func() int { n, _ := kept.Load().all(); return n })
		took := time.Since(start)
		idle(t, c)
		perSecond := float64(keys) / took.Seconds()
		t.Logf("%d keys, 8 workers: %v, %.0f per second", keys, took.Round(time.Millisecond), perSecond)
		if n, total := kept.Load().all(); n != total {
			t.Errorf("%d keys were reconciled %d times", n, total)
		}
		return heapInUse()
	}
	before := round(&first)
	first.Store(nil)
	after := round(&second)
	// The second round holds its counts as the first did; the queue holds nothing of either.
	if grown, most := after-before, int64(1<<19+35*keys); grown > most {
		t.Errorf("the heap has grown by %d bytes from one round to the next, want at most %d", grown, most)
	}
	if n := c.engine.Inside().Queue.Counts(); c.Stats().Failing != 0 || n.Delayed != 0 ||
		c.engine.Inside().Queue.Remembered() != 0 {
		t.Errorf("left behind: %+v, %d entries", n, c.engine.Inside().Queue.Remembered())
	}
}

// TestAnInitialListIsReconciledOnceAndLeavesNothingBehindWhenItGoes counts what the engine keeps per key, with records.
func TestAnInitialListIsReconciledOnceAndLeavesNothingBehindWhenItGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := 1_000 * soak()
	sites := w.sites()
	w.putMany(keys, keyNumber, func(i int) string { return fmt.Sprintf(`{"spec":{"pages":%d}}`, i) })
	counted := newOnce()
	c, err := New("sites", sites, counted, WithWorkers(8), WithResyncInterval(0))
	must(t, err)
	start := time.Now()
	r := w.run(c)
	eventuallyGrows(t, "keys reconciled", keys, func() int { n, _ := counted.all(); return n })
	idle(t, c)
	t.Logf("%d documents listed, anchored and reconciled in %v", keys, time.Since(start).Round(time.Millisecond))
	if n, total := counted.all(); n != total {
		t.Errorf("%d keys were reconciled %d times", n, total)
	}
	for i := range keys {
		_, err := w.js.PublishMsgAsync(deleteMarker(keyNumber(i)), jetstream.WithStallWait(patience))
		must(t, err)
	}
	eventuallyGrows(t, "keys torn down", keys, func() int { return int(c.Stats().TornDown) })
	idle(t, c)
	eventually(t, "the caches are empty", func() bool {
		return len(sites.Informer().GetStore().ListKeys()) == 0 && len(sites.Records().Keys()) == 0
	})
	r.halt() // so that its state can be read
	left := map[string]int{
		"table": c.engine.Inside().Keys.Len(),
		"queue": c.engine.Inside().Queue.Remembered(), "mappings": c.engine.Inside().Mappings.Waiting(),
	}
	for what, n := range left {
		if n != 0 {
			t.Errorf("%s: %d are left behind", what, n)
		}
	}
}

// TestASlowReconcilerBlocksNeitherItsCacheNorOthers: while it is held its informer takes everything in, another
// controller on the same client goes on, and afterwards it sees the last state of every key.
func TestASlowReconcilerBlocksNeitherItsCacheNorOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites := w.sites()
	const keys, rounds = 200, 20
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
	eventually(t, "the other controller saw the last state of every key", sawLast(quick))
	eventually(t, "the slow one's queue knows every key", func() bool { return first.Stats().Ready[0] == keys+1 })
	if first.Stats().Running != 1 {
		t.Errorf("%d run, want the one that is held", first.Stats().Running)
	}
	open.Store(true)
	g.leave <- nil
	eventually(t, "the slow one saw the last state of every key", sawLast(slow))
	idle(t, first)
	if n := first.Stats().Reconciles; n != keys+2 {
		t.Errorf("%d reconciles for %d keys that changed %d times while one was held, and two: want one each", n, keys,
			rounds)
	}
}

// TestDebounceWaitsForQuietAndNeverLongerThanMax: no reconcile is early, and a key that never rests is reconciled all
// the same.
func TestDebounceWaitsForQuietAndNeverLongerThanMax(t *testing.T) {
	const quiet, most = 100 * time.Millisecond, 600 * time.Millisecond
	w := newWorld(t)
	sites := w.sites()
	seen := make(chan time.Time, 10_000)
	c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
		seen <- time.Now()
		return Result{}, nil
	}), WithDebounce(quiet, most), WithResyncInterval(0))
	must(t, err)
	w.run(c)
	eventually(t, "it works", func() bool { return c.Stats().Leading })
	change := func(n int) time.Time {
		t.Helper()
		at := time.Now()
		_, err := w.kv("sites").Put(t.Context(), "home", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n))
		must(t, err)
		return at
	}
	// Alone.
	at := change(0)
	if waited := receive(t, "the reconcile", seen).Sub(at); waited < quiet {
		t.Errorf("reconciled %v after the change, want %v of quiet first", waited, quiet)
	}
	idle(t, c)
	// Without rest: the first comes when max is over, although it is never quiet.
	at = change(1)
	var first time.Time
	for n := 2; first.IsZero(); n++ {
		if time.Since(at) > patience {
			t.Fatal("a key that never rests is hidden for ever")
		}
		change(n)
		select {
		case first = <-seen:
		default:
		}
	}
	// On a machine so busy that two changes lie further apart than quiet it comes earlier, and others follow, each for
	// a change that came behind the one before. None comes before quiet.
	for n, reconciled := 1, first; ; n++ {
		if waited := reconciled.Sub(at); waited < time.Duration(n)*quiet {
			t.Errorf("%d reconciles within %v of the first change", n, waited)
		}
		idle(t, c)
		if len(seen) == 0 {
			return
		}
		reconciled = <-seen
	}
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

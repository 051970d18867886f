package running

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told records what a watch tells.
type told struct {
	mu     sync.Mutex
	counts []string
	stuck  []stuck
}

func (d *told) count(n int, oldest Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts = append(d.counts, fmt.Sprint(n, " ", oldest.Key))
}

// all are the reconciles that were told, and what was counted.
func (d *told) all() (stuck []stuck, counts string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.stuck), fmt.Sprint(d.counts)
}

func (d *told) tell(s stuck) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = append(d.stuck, s)
}

//go:noinline
func blocked(until <-chan struct{}) { <-until }

// work reconciles a key until that is closed.
func work(t *Table, key string, attempt int, until <-chan struct{}) {
	w := t.Worker()
	defer w.Leave()
	w.Take(key)
	r := t.Begin(key, time.Now(), attempt)
	blocked(until)
	t.End(r)
}

func TestEachReconcileThatRunsForTooLongIsToldOnceWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		var got told
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			table.watch(ctx, time.Minute, got.count, got.tell)
		}()
		first, second := make(chan struct{}), make(chan struct{})
		go work(&table, "first", 3, first)
		time.Sleep(10 * time.Second)
		go work(&table, "second", 1, second)
		time.Sleep(49 * time.Second)
		synctest.Wait()
		if stuck, counts := got.all(); len(stuck) != 0 || counts != "[]" {
			t.Fatalf("told after 59 s: %v %v", counts, stuck)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stuck, _ := got.all()
		if len(stuck) != 1 || stuck[0].Key != "first" || stuck[0].Attempt != 3 {
			t.Fatalf("told after 61 s: %v", stuck)
		}
		if stack := stuck[0].stack; !strings.Contains(stack, "running.blocked (running/running_test.go:") {
			t.Errorf("the stack is %q", stack)
		}
		if longest, _ := table.Longest(); longest.Key != "first" {
			t.Errorf("the longest is %v", longest)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if stuck, _ := got.all(); len(stuck) != 2 || stuck[1].Key != "second" {
			t.Errorf("told after an hour: %v", stuck)
		}
		close(first)
		time.Sleep(2 * time.Second)
		close(second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		cancel()
		<-watched
		if _, counts := got.all(); counts != "[1 first 2 first 1 second 0 ]" {
			t.Errorf("counted %v", counts)
		}
		if longest, _ := table.Longest(); longest != (Run{}) || len(table.workers) != 0 {
			t.Errorf("nothing runs, and the longest is %v of %d workers", longest, len(table.workers))
		}
	})
}

// TestTheEndOfATermEndsWhatItTold: nobody is stuck for ever on a replica that does not lead.
func TestTheEndOfATermEndsWhatItTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		var got told
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		until := make(chan struct{})
		go work(&table, "home", 1, until)
		table.watch(ctx, time.Minute, got.count, got.tell)
		if want := "[1 home 0 ]"; fmt.Sprint(got.counts) != want {
			t.Errorf("counted %v, want %v", got.counts, want)
		}
		close(until)
	})
}

// TestTheStackIsOfTheWorkerThatHasTheKeyNow, and not of one that had it before.
func TestTheStackIsOfTheWorkerThatHasTheKeyNow(t *testing.T) {
	var table Table
	before := table.Worker()
	before.Take("home")
	before.Take("")
	now := make(chan uint64)
	go func() {
		w := table.Worker()
		w.Take("home")
		now <- w.goroutine
	}()
	if want := <-now; table.goroutineOf("home") != want || want == before.goroutine || want == 0 {
		t.Errorf("goroutine %d, want %d", table.goroutineOf("home"), want)
	}
}

func TestReconcilesThatEndInAnyOrderLeaveTheOthers(t *testing.T) {
	var table Table
	runs := make([]*Run, 5)
	for i := range runs {
		runs[i] = table.Begin(fmt.Sprint(i), time.Now(), 1)
	}
	for step, end := range []int{2, 0, 4, 1, 3} {
		table.End(runs[end])
		want := []string{"0", "1", "1", "3", ""}[step]
		if longest, _ := table.Longest(); longest.Key != want {
			t.Errorf("after %d has ended %q is the longest, want %q", end, longest.Key, want)
		}
	}
}

func TestABeginAndAnEndAllocateNothing(t *testing.T) {
	var table Table
	w := table.Worker()
	now := time.Now()
	once := func() {
		w.Take("home")
		first, second := table.Begin("home", now, 1), table.Begin("shop", now, 2)
		table.End(first)
		table.End(second)
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAStackIsOneBoundedLineAsFarAsTheReconcilerGoes(t *testing.T) {
	dump := []byte("goroutine 7 [running]:\nmain.other()\n\t/x/other.go:1 +0x1\n\n" +
		"goroutine 17 [chan receive, 3 minutes]:\nexample.com/shop.(*R).wait(0xc000, {0x1, 0x2})\n" +
		"\t/home/me/shop/wait.go:40 +0x1d\nexample.com/shop.(*R).Reconcile(0xc000)\n\t/home/me/shop/r.go:12 +0x1\n" +
		"github.com/nagi-runtime/nagi/internal/guard.Call(0xc000)\n\t/nagi/guard.go:9 +0x1\nmain.main()\n\t/x/m.go:1\n\n" +
		"goroutine 177 [running]:\nmain.third()\n\t/x/third.go:1 +0x1\n")
	want := "chan receive, 3 minutes: shop.(*R).wait (shop/wait.go:40) < shop.(*R).Reconcile (shop/r.go:12)"
	if got := stackOf(dump, 17); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, id := range []uint64{0, 1, 18} {
		if got := stackOf(dump, id); got != "its goroutine was not found" {
			t.Errorf("goroutine %d: %q", id, got)
		}
	}
	deep := "goroutine 7 [running]:\n" + strings.Repeat("main.deeper()\n\t/x/deeper.go:1 +0x1\n", 5000)
	if got := stackOf([]byte(deep), 7); len(got) > mostStack+len("…") || strings.Contains(got, "\n") {
		t.Errorf("%d bytes", len(got))
	}
}

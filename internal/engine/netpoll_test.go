package engine

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// With one processor nothing but a poll lets a goroutine run that waits for a file: the test never blocks otherwise,
// and the scheduler's own poll comes after 10 ms.
func TestAPollRunsWhoWaitsForWhatHasArrived(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := NewPoller()
	must(t, err)
	defer p.Close()
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
		must(t, p.Poll())
		if got.Load() != i+1 { // the scheduler's own poll may come between, or another process may stop the reader
			late++
		}
		if late > 100 {
			t.Fatalf("after %d of %d polls the reader had not run", late, i+1)
		}
		for got.Load() != i+1 {
			must(t, p.Poll())
		}
	}
	must(t, write.Close())
	<-ended
	must(t, read.Close())
}

func TestAPollCostsNothingWhileAProcessorIsFree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64)) // more than this test's process has goroutines that run
	p, err := NewPoller()
	must(t, err)
	must(t, p.Close())                                                   // a poll that used the pipe would fail
	for deadline := time.Now().Add(30 * time.Second); p.Poll() != nil; { // a goroutine may be runnable for a moment
		if time.Now().After(deadline) {
			t.Fatal("no poll finds a free processor")
		}
	}
}

func TestAPollAfterCloseFails(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // or there could be one that is free
	p, err := NewPoller()
	must(t, err)
	must(t, p.Poll())
	must(t, p.Close())
	if err := p.Poll(); err == nil {
		t.Error("a poll after close did not fail")
	}
}

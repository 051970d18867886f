package notify

import (
	"sync"
	"time"
)

// Tally counts what comes in numbers, and tells the count a while after the first of them, so that a thousand things
// are one line. Set After and Tell before the first Add. All methods may be called concurrently; Tell is called without
// a lock.
type Tally struct {
	After time.Duration
	Tell  func(n int)

	mu    sync.Mutex
	n     int
	timer *time.Timer // nil while nothing was counted
}

// Add counts one more.
func (t *Tally) Add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.timer == nil {
		t.timer = time.AfterFunc(t.After, t.Flush)
	}
}

// Flush tells what was counted at once, if anything was.
func (t *Tally) Flush() {
	t.mu.Lock()
	n := t.n
	t.n = 0
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.mu.Unlock()
	if n > 0 {
		t.Tell(n)
	}
}

package queue

import (
	"context"
	"errors"
	"time"
)

// ErrClosed is the error of Hold after ShutDown.
var ErrClosed = errors.New("the queue is shut down")

// heldLook is how often Hold looks whether a key is free.
const heldLook = 10 * time.Millisecond

// Hold keeps a key from all workers until Release, once none has it. What makes it due, or has, waits meanwhile. A key
// that is held is not in progress: nothing waits for its end, and what is due of it may be cancelled.
func (q *Queue) Hold(ctx context.Context, key string) error {
	for {
		held, err := q.tryHold(key)
		if held || err != nil {
			return err
		}
		timer := time.NewTimer(heldLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func (q *Queue) tryHold(key string) (held bool, err error) {
	of := q.groups.name(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	e := q.entry(key, of)
	if e.running || e.held {
		return false, nil
	}
	if e.ops != 0 {
		q.ready.remove(e)
	}
	e.held = true
	return true, nil
}

// Release gives a key back that Hold has taken.
func (q *Queue) Release(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || !e.held {
		return
	}
	e.held = false
	if e.ops != 0 {
		q.ready.push(e)
		q.wake.Signal()
	}
	q.release(e)
}

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// leadership is whether this replica works, waits for the lease, or stops.
type leadership struct {
	leads    atomic.Bool // a term has begun and is not over
	stopping atomic.Bool // the controller stops

	mu    sync.RWMutex
	waits bool // for the lease, with warm caches
}

func (l *leadership) wait(waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = waits
}

// Notice makes a key due because of something that a source told. While this replica waits for the lease, that is
// kept for keys that exist, so that it can take over warm. Of a key that is gone nothing is: the record says whether
// its teardown is owed, and the brake asks for it when a term begins. Else a replica that waits for weeks would
// remember every key that ever was. It is false if nothing is remembered.
func (e *Engine) Notice(key string, ops operation.Operations, prio queue.Priority) (due bool) {
	e.leadership.mu.RLock()
	defer e.leadership.mu.RUnlock()
	if e.leadership.waits && !e.primary.Exists(key) {
		e.queue.CancelDue(key)
		e.keys.ResetFailures(key) // the replica that leads has its own
		return false
	}
	e.queue.Add(key, ops, prio)
	return true
}

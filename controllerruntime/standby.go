package controllerruntime

import (
	"github.com/nagi-runtime/nagi/internal/queue"
	"sync"
)

// standby is on while this replica does not work. What its sources tell meanwhile is kept for keys that exist, so that it
// can take over warm; of a key that is gone nothing is: the record says whether its teardown is owed, and brake.start asks.
// Else a replica that waits for weeks would remember every key that ever was.
type standby struct {
	mu sync.RWMutex
	on bool
}

func (s *standby) set(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

// noticed makes a key due because of something that a source told. It is false if that is not remembered.
func (e *engine) Notice(key string, ops Operations, prio queue.Priority) (due bool) {
	e.standby.mu.RLock()
	defer e.standby.mu.RUnlock()
	if e.standby.on && !e.primary.Exists(key) {
		e.queue.CancelDue(key)
		return false
	}
	e.queue.Add(key, ops, prio)
	return true
}

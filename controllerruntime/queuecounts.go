package controllerruntime

import "time"

// queueCounts is the state of a queue at one moment.
type queueCounts struct {
	ready      [prioCount]int // keys that wait for a worker
	inProgress int
	rerun      int           // of those, keys that are due again when their run ends
	timers     int           // delays: retries, requeues, the user's, debounced keys
	failing    int           // keys whose last attempt failed
	oldest     time.Duration // how long the oldest ready key is ready
}

// counts returns them all under one hold of the lock, so that they agree.
func (q *queue) counts() queueCounts {
	c := queueCounts{failing: q.backoff.failing()}
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range c.ready {
		c.ready[p] = q.ready.byPriority[p].len
	}
	c.inProgress, c.rerun, c.timers = q.running, q.rerun, len(q.timers.heap)
	if oldest := q.ready.byAge.front; oldest != nil {
		c.oldest = q.now() - oldest.readyAt
	}
	return c
}

package queue

import (
	"slices"
	"time"
)

// Counts is the state of a queue at one moment.
type Counts struct {
	Ready      [Bands]int // keys that wait for a worker
	InProgress int
	Rerun      int           // of those, keys that are due again when their run ends
	Delayed    int           // delays: retries, requeues, the user's, debounced keys
	Oldest     time.Duration // how long the oldest ready key is ready
	Groups     int           // how many groups have keys that wait for a worker
}

// Counts returns them all under one hold of the lock, so that they agree.
func (q *Queue) Counts() Counts {
	var c Counts
	q.mu.Lock()
	defer q.mu.Unlock()
	c.Ready, c.Groups = q.ready.ready, len(q.ready.byAge.lanes)
	c.InProgress, c.Rerun, c.Delayed = q.inHand.len, q.rerun, len(q.timers.heap)
	if q.rate != nil && q.rate.timer.index >= 0 {
		c.Delayed-- // that is of no key
	}
	if oldest := q.ready.byAge.oldest(); oldest != nil {
		c.Oldest = q.now() - oldest.readyAt
	}
	return c
}

// Totals counts how often a key became due that was not due already, and how often one was added with a delay.
func (q *Queue) Totals() (adds, delays uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.adds, q.delays
}

// RateWaits counts how many hand-outs had to wait for the rate.
func (q *Queue) RateWaits() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rate == nil {
		return 0
	}
	return q.rate.waits
}

// Remembered is the number of keys of which the queue knows anything.
func (q *Queue) Remembered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// Running reports whether a worker has the key: between Get and Done.
func (q *Queue) Running(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	return e != nil && e.running
}

// RunningKeys returns up to so many of the keys that are handed out and not done, in the order of the alphabet.
func (q *Queue) RunningKeys(most int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := q.inHand.first(q.inHand.len)
	slices.Sort(keys)
	return keys[:min(len(keys), most)]
}

// Closed reports whether ShutDown was called.
func (q *Queue) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

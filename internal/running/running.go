// Package running knows which reconciles run, since when, and where one is that does not return.
//
// The rule: a reconcile that begins costs a place in a list, and nothing more. A stack is looked for only when one has
// run for too long, once for each of them.
package running

import (
	"sync"
	"time"
)

// Run is one reconcile under way. It belongs to its Table, which gives it out from Begin to End.
type Run struct {
	Key     string
	Since   time.Time
	Attempt int // counts from 1

	told       bool
	prev, next *Run
}

// Table holds the reconciles under way. The zero value is ready; its methods may be called concurrently.
type Table struct {
	mu             sync.Mutex
	oldest, newest *Run // in the order in which they began
	spare          *Run // used ones, linked by next: Begin allocates only if there is none
	workers        []*Worker
	ended          *[endedPlaces]Ended // see Keep; nil before the first
}

// Worker is a goroutine that reconciles one key after another.
type Worker struct {
	goroutine uint64
	table     *Table

	mu  sync.Mutex
	key string
}

// Worker notes that the calling goroutine will reconcile, until Leave.
func (t *Table) Worker() *Worker {
	w := &Worker{goroutine: goroutine(), table: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers = append(t.workers, w)
	return w
}

// Take notes which key the worker has in its hands; "" for none.
func (w *Worker) Take(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key = key
}

// Leave forgets the worker.
func (w *Worker) Leave() {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, other := range t.workers {
		if other == w {
			t.workers = append(t.workers[:i:i], t.workers[i+1:]...)
			return
		}
	}
}

// Begin notes that a reconcile runs since then.
func (t *Table) Begin(key string, since time.Time, attempt int) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.spare
	if r != nil {
		t.spare = r.next
	} else {
		r = &Run{}
	}
	*r = Run{Key: key, Since: since, Attempt: attempt, prev: t.newest}
	if t.newest != nil {
		t.newest.next = r
	} else {
		t.oldest = r
	}
	t.newest = r
	return r
}

// End notes that r has returned. The caller uses it no more.
func (t *Table) End(r *Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(r)
}

func (t *Table) endLocked(r *Run) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		t.oldest = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		t.newest = r.prev
	}
	*r = Run{next: t.spare}
	t.spare = r
}

// Longest is the reconcile that has run for longest, zero if none runs, and how long all have run together.
func (t *Table) Longest() (longest Run, all time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.oldest != nil {
		longest = t.oldest.copy()
	}
	for r := t.oldest; r != nil; r = r.next {
		all += time.Since(r.Since)
	}
	return longest, all
}

func (r *Run) copy() Run { return Run{Key: r.Key, Since: r.Since, Attempt: r.Attempt} }

// since returns what runs since that time or longer: all of it, and what of it was not told yet.
func (t *Table) since(begin time.Time) (all int, news []Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := t.oldest; r != nil && !r.Since.After(begin); r = r.next {
		if all++; !r.told {
			r.told = true
			news = append(news, r.copy())
		}
	}
	return all, news
}

// goroutineOf is the goroutine that has a key in its hands; 0 if none has.
func (t *Table) goroutineOf(key string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.workers {
		w.mu.Lock()
		has := w.key == key
		w.mu.Unlock()
		if has {
			return w.goroutine
		}
	}
	return 0
}

package queue

import (
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

// entry is what the queue knows of a key: one that waits, is due or runs. A key
// with nothing to come has none.
type entry struct {
	key     string
	ops     operation.Operations // why the next run is due; empty if it is not
	prio    Priority
	group   group
	running bool
	held    bool // no worker gets it: see Hold
	ahead   bool // it goes before the backlog whatever its priority
	paid    bool // a worker has it, and it is not known yet whether it is reconciled: see rate

	added   time.Duration // first reason of the next run
	readyAt time.Duration

	wait *timer // delays the next run: retry, requeue or debounce; nil when it is due
	user *timer // a user's EnqueueAfter

	links [linksCount]entryLinks
}

// entry returns what is known of the key, which is of that group, and begins to know it.
func (q *Queue) entry(key, of string) *entry {
	e := q.entries[key]
	if e == nil {
		e = q.newEntry(key)
		e.group = q.groups.join(of)
		q.entries[key] = e
		q.most = max(q.most, len(q.entries))
	}
	return e
}

// spareEntries is how many entries are kept to be used again: a key that comes and goes then costs no memory.
const spareEntries = 256

func (q *Queue) newEntry(key string) *entry {
	last := len(q.spare) - 1
	if last < 0 {
		return &entry{key: key}
	}
	e := q.spare[last]
	q.spare = q.spare[:last]
	e.key = key
	return e
}

// manyEntries is from how many on the map of entries is given up once it is empty.
const manyEntries = 10_000

// release forgets a key with nothing to come.
func (q *Queue) release(e *entry) {
	if e.ops != 0 || e.running || e.held || e.wait != nil || e.user != nil {
		return
	}
	delete(q.entries, e.key)
	q.groups.leave(e.group)
	if len(q.spare) < spareEntries {
		*e = entry{} // no pointer to it is left
		q.spare = append(q.spare, e)
	}
	if len(q.entries) == 0 && q.most > manyEntries {
		// A map never shrinks: an initial list of millions would stay for good.
		q.entries, q.most = map[string]*entry{}, 0
	}
}

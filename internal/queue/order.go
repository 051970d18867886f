package queue

// Priority says which ready keys go first.
type Priority uint8

const (
	Background Priority = iota // the initial list, resync, requeues
	Secondary                  // live changes of what a primary owns or reads
	Live                       // live changes of primaries, and requests by hand
	Priorities                 // how many there are
)

// OldestEvery is how often the oldest ready key is handed out whatever its
// priority, so that a constant live load starves no key: one hand-out in eight.
// A live change therefore waits behind at most that one.
const OldestEvery = 8

// order holds the ready keys, which are dirty and not in progress, and decides which
// goes next. Every operation takes constant time, and nothing is left behind by a
// key that moved. The queue's lock guards it.
type order struct {
	byPriority [Priorities]entryList
	byAge      entryList // the same keys, the one that became ready first in front
	handedOut  uint64
}

func newOrder() *order {
	o := &order{byAge: entryList{links: linksByAge}}
	for i := range o.byPriority {
		o.byPriority[i].links = linksByPriority
	}
	return o
}

// push adds a key that became ready, behind those of its priority. Callers read the clock before they have the lock, so
// e.readyAt may be a moment too early for its place.
func (o *order) push(e *entry) {
	if last := o.byAge.back; last != nil {
		e.readyAt = max(e.readyAt, last.readyAt)
	}
	e.placed = e.place()
	o.byPriority[e.placed].pushBack(e)
	o.byAge.pushBack(e)
}

// place is the priority under which a key stands in order.
func (e *entry) place() Priority {
	if e.ahead {
		return max(e.prio, Secondary)
	}
	return e.prio
}

// move moves a ready key whose priority was raised behind those of its new
// priority. Its age stays.
func (o *order) move(e *entry) {
	place := e.place()
	if e.placed == place {
		return
	}
	o.byPriority[e.placed].remove(e)
	e.placed = place
	o.byPriority[e.placed].pushBack(e)
}

// len returns the number of ready keys.
func (o *order) len() int { return o.byAge.len }

// onlyBackground tells whether no key of a higher priority is ready.
func (o *order) onlyBackground() bool { return o.byAge.len == o.byPriority[Background].len }

// pop takes the next key: the first of the highest priority, or in every eighth
// turn the oldest of all. There must be one.
func (o *order) pop() *entry {
	o.handedOut++
	e := o.byAge.front
	if o.handedOut%OldestEvery != 0 {
		e = o.first()
	}
	o.remove(e)
	return e
}

// popFirst takes the first key of the highest priority. There must be one.
func (o *order) popFirst() *entry {
	e := o.first()
	o.remove(e)
	return e
}

// remove takes a ready key out.
func (o *order) remove(e *entry) {
	o.byPriority[e.placed].remove(e)
	o.byAge.remove(e)
}

func (o *order) first() *entry {
	for p := Priorities; p > 0; p-- {
		if e := o.byPriority[p-1].front; e != nil {
			return e
		}
	}
	return nil
}

// The links of the lists that a key may be in at the same time. A ready key is in two; one that a worker has, or that
// has a delay, is not ready, and the lists of those use the same links.
const (
	linksByPriority = iota
	linksByAge
	linksByUser
	linksCount

	linksByDelay = linksByPriority
)

type entryLinks struct{ prev, next *entry }

// entryList is a doubly linked list threaded through the entries themselves, so
// that moving a key neither searches nor allocates.
type entryList struct {
	front, back *entry
	len         int
	links       uint8 // which of an entry's links are this list's
}

func (l *entryList) pushBack(e *entry) {
	e.links[l.links] = entryLinks{prev: l.back}
	if l.back != nil {
		l.back.links[l.links].next = e
	} else {
		l.front = e
	}
	l.back = e
	l.len++
}

func (l *entryList) remove(e *entry) {
	at := e.links[l.links]
	if at.prev != nil {
		at.prev.links[l.links].next = at.next
	} else {
		l.front = at.next
	}
	if at.next != nil {
		at.next.links[l.links].prev = at.prev
	} else {
		l.back = at.prev
	}
	e.links[l.links] = entryLinks{}
	l.len--
}

// first returns the keys of so many entries from the front.
func (l *entryList) first(most int) (keys []string) {
	for e := l.front; e != nil && len(keys) < most; e = e.links[l.links].next {
		keys = append(keys, e.key)
	}
	return keys
}

package queue

// OldestEvery is how often the oldest ready key is handed out whatever its priority, so that a constant live load
// starves no key: one hand-out in eight. A live change therefore waits behind at most that one.
const OldestEvery = 8

// order holds the ready keys, which are due and not in progress, and decides which goes next. With groups they take
// turns: among the keys of one priority, and apart from that among the oldest. What an operation costs does not depend
// on how many keys there are; with other priorities than the three named ones it grows with the logarithm of how many
// of those have keys. Nothing is left behind by a key that moved. The queue's lock guards it.
type order struct {
	named     [Bands]rota // of the named priorities
	others    levels      // of all others
	byAge     rota        // the same keys, the one that became ready first in front
	ready     [Bands]int
	handedOut uint64
}

func newOrder() *order {
	o := &order{byAge: newRota(linksByAge, 0)}
	for band, prio := range [Bands]Priority{Background, Secondary, Live} {
		o.named[band] = newRota(linksByPriority, prio)
	}
	return o
}

// push adds a key that became ready, behind those of its priority and group. Callers read the clock before they have
// the lock, so e.readyAt may be a moment too early for its place.
func (o *order) push(e *entry) {
	if last := o.byAge.lastOf(e.group); last != nil {
		e.readyAt = max(e.readyAt, last.readyAt)
	}
	o.place(e)
	o.byAge.pushBack(e)
}

// place is the priority under which a key stands in order.
func (e *entry) place() Priority {
	if e.ahead {
		return max(e.prio, Secondary)
	}
	return e.prio
}

// place puts a key behind those of its priority and group.
func (o *order) place(e *entry) {
	prio := e.place()
	o.ready[prio.Band()]++
	if level := o.namedLevel(prio); level != nil {
		level.pushBack(e)
		return
	}
	o.others.pushBack(e, prio)
}

// displace undoes place. It comes before what changes the key's place.
func (o *order) displace(e *entry) {
	prio := e.place()
	o.ready[prio.Band()]--
	if level := o.namedLevel(prio); level != nil {
		level.remove(e)
		return
	}
	o.others.remove(e, prio)
}

func (o *order) namedLevel(prio Priority) *rota {
	switch prio {
	case Live:
		return &o.named[BandLive]
	case Secondary:
		return &o.named[BandSecondary]
	case Background:
		return &o.named[BandBackground]
	}
	return nil
}

// level has the ready keys of a priority; nil if there are none and it has no name.
func (o *order) level(prio Priority) *rota {
	if level := o.namedLevel(prio); level != nil {
		return level
	}
	return o.others.byPriority[prio]
}

// raise gives a ready key a higher priority, and moves it behind those of its new one. Its age stays.
func (o *order) raise(e *entry, prio Priority) {
	if e.ahead && prio <= Secondary {
		e.prio = prio
		return
	}
	o.displace(e)
	e.prio = prio
	o.place(e)
}

// len returns the number of ready keys.
func (o *order) len() int { return o.byAge.len }

// onlyBackground tells whether no key of a higher priority is ready.
func (o *order) onlyBackground() bool { return o.byAge.len == o.ready[BandBackground] }

// pop takes the next key: the first of the highest priority, or in every eighth turn the oldest of all; of the group
// whose turn it is. There must be one.
func (o *order) pop() *entry {
	o.handedOut++
	if o.handedOut%OldestEvery == 0 {
		return o.take(&o.byAge)
	}
	return o.popFirst()
}

// popFirst takes the first key of the highest priority. There must be one.
func (o *order) popFirst() *entry { return o.take(o.highest()) }

func (o *order) take(from *rota) *entry {
	e := from.next()
	o.remove(e)
	return e
}

// remove takes a ready key out.
func (o *order) remove(e *entry) {
	o.displace(e)
	o.byAge.remove(e)
}

// highest has the keys of the highest priority that has any. There must be one.
func (o *order) highest() *rota {
	top := o.others.highest()
	for band := Bands; band > 0; band-- {
		if named := &o.named[band-1]; named.len > 0 {
			if top == nil || named.prio > top.prio {
				return named
			}
			break
		}
	}
	return top
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

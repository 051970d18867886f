package queue

import "container/heap"

// rota is a list of ready keys in which groups take turns; without groups it is a plain list. A group has a lane while
// it has keys in the list, and goes behind the others when it has had its turn. So each of n groups with keys gets the
// nth part of what is taken, however many keys it has.
type rota struct {
	len   int
	all   entryList // where there are no groups
	lanes map[group]*lane
	most  int // lanes since the map was made
	first *lane
	last  *lane

	prio  Priority // of all its keys, where that is what they have in common
	index int      // in the heap of levels
}

// lane has the keys of one group.
type lane struct {
	keys       entryList
	prev, next *lane // those whose turns come before and after
}

func newRota(links uint8, prio Priority) rota { return rota{all: entryList{links: links}, prio: prio} }

func (r *rota) pushBack(e *entry) {
	r.len++
	if e.group == 0 {
		r.all.pushBack(e)
		return
	}
	l := r.lanes[e.group]
	if l == nil {
		l = &lane{keys: entryList{links: r.all.links}}
		if r.lanes == nil {
			r.lanes = map[group]*lane{}
		}
		r.lanes[e.group] = l
		r.most = max(r.most, len(r.lanes))
		r.append(l)
	}
	l.keys.pushBack(e)
}

func (r *rota) remove(e *entry) {
	r.len--
	if e.group == 0 {
		r.all.remove(e)
		return
	}
	l := r.lanes[e.group]
	if l.keys.remove(e); l.keys.len > 0 {
		return
	}
	r.unlink(l)
	delete(r.lanes, e.group)
	if len(r.lanes) == 0 && r.most > manyEntries {
		r.lanes, r.most = nil, 0 // a map never shrinks
	}
}

// next is the key whose turn it is, and passes the turn on: take the key out. There must be one.
func (r *rota) next() *entry {
	l := r.first
	if l == nil {
		return r.all.front
	}
	if l != r.last {
		r.unlink(l)
		r.append(l)
	}
	return l.keys.front
}

// lastOf is the last key of a group; nil if it has none.
func (r *rota) lastOf(of group) *entry {
	if of == 0 {
		return r.all.back
	}
	if l := r.lanes[of]; l != nil {
		return l.keys.back
	}
	return nil
}

func (r *rota) append(l *lane) {
	l.prev, l.next = r.last, nil
	if r.last != nil {
		r.last.next = l
	} else {
		r.first = l
	}
	r.last = l
}

func (r *rota) unlink(l *lane) {
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		r.first = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	} else {
		r.last = l.prev
	}
}

// oldest is the key that became ready first, of a list by age; nil if there is none. It looks at one key of each group.
func (r *rota) oldest() *entry {
	oldest := r.all.front
	for l := r.first; l != nil; l = l.next {
		if e := l.keys.front; oldest == nil || e.readyAt < oldest.readyAt {
			oldest = e
		}
	}
	return oldest
}

// oldestKeys returns up to so many keys of a list by age, the one that became ready first in front, and whether these
// are all.
func (r *rota) oldestKeys(most int) (keys []string, all bool) {
	if r.first == nil {
		return r.all.first(most), r.all.len <= most
	}
	fronts := make(ageHeap, 0, len(r.lanes))
	for l := r.first; l != nil; l = l.next {
		fronts = append(fronts, l.keys.front)
	}
	heap.Init(&fronts)
	for len(fronts) > 0 && len(keys) < most {
		e := fronts[0]
		keys = append(keys, e.key)
		if next := e.links[linksByAge].next; next != nil {
			fronts[0] = next
			heap.Fix(&fronts, 0)
		} else {
			heap.Pop(&fronts)
		}
	}
	return keys, r.len <= most
}

// ageHeap implements heap.Interface, the key that became ready first in front.
type ageHeap []*entry

func (h ageHeap) Len() int           { return len(h) }
func (h ageHeap) Less(i, j int) bool { return h[i].readyAt < h[j].readyAt }
func (h ageHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ageHeap) Push(x any)        { *h = append(*h, x.(*entry)) }

func (h *ageHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

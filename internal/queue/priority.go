package queue

import (
	"container/heap"
	"strconv"
)

// Priority says which ready keys go first: those of a higher one. Any number is one. The zero value is Live.
type Priority int32

// The priorities that have names. Their numbers are those that controller-runtime has for the like.
const (
	Live       Priority = 0    // live changes of primaries, and requests by hand
	Secondary  Priority = -10  // live changes of what a primary owns or reads
	Background Priority = -100 // the initial list, resync, requeues
)

// Band is one of the parts into which the named priorities cut all: from a named one up to below the next.
type Band uint8

// The bands. The first one has all that is below Secondary, the last one all from Live on.
const (
	BandBackground Band = iota
	BandSecondary
	BandLive
	Bands // how many there are
)

// Band is that of a priority.
func (p Priority) Band() Band {
	switch {
	case p >= Live:
		return BandLive
	case p >= Secondary:
		return BandSecondary
	}
	return BandBackground
}

// String is the name of a priority that has one, and else its number.
func (p Priority) String() string {
	switch p {
	case Live:
		return "live"
	case Secondary:
		return "secondary"
	case Background:
		return "background"
	}
	return strconv.Itoa(int(p))
}

// levels has the ready keys of the priorities without a name that have any.
type levels struct {
	byPriority map[Priority]*rota
	heap       levelHeap
}

func (l *levels) pushBack(e *entry, prio Priority) {
	level := l.byPriority[prio]
	if level == nil {
		made := newRota(linksByPriority, prio)
		level = &made
		if l.byPriority == nil {
			l.byPriority = map[Priority]*rota{}
		}
		l.byPriority[prio] = level
		heap.Push(&l.heap, level)
	}
	level.pushBack(e)
}

func (l *levels) remove(e *entry, prio Priority) {
	level := l.byPriority[prio]
	level.remove(e)
	if level.len > 0 {
		return
	}
	heap.Remove(&l.heap, level.index)
	if delete(l.byPriority, prio); len(l.byPriority) == 0 {
		*l = levels{} // a map never shrinks
	}
}

// highest is the level of the highest priority; nil if no key is ready in any.
func (l *levels) highest() *rota {
	if len(l.heap) == 0 {
		return nil
	}
	return l.heap[0]
}

// levelHeap implements heap.Interface, the highest in front.
type levelHeap []*rota

func (h levelHeap) Len() int { return len(h) }

func (h levelHeap) Less(i, j int) bool { return h[i].prio > h[j].prio }

func (h levelHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *levelHeap) Push(x any) {
	level := x.(*rota)
	level.index = len(*h)
	*h = append(*h, level)
}

func (h *levelHeap) Pop() any {
	last := len(*h) - 1
	level := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return level
}

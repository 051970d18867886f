package explain

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/internal/queue"
)

// Top returns the n first of all in an order, as slices.SortFunc has it, and keeps no more than them. If order is nil
// it returns the first n as they come.
func Top[E any](all iter.Seq[E], n int, order func(a, b E) int) (top []E) {
	if n <= 0 {
		return nil
	}
	for e := range all {
		if order == nil {
			if top = append(top, e); len(top) == n {
				break
			}
			continue
		}
		place, _ := slices.BinarySearchFunc(top, e, func(a, b E) int {
			if order(a, b) <= 0 {
				return -1 // of equals the first stays the first
			}
			return 1
		})
		if place < n {
			top = slices.Insert(top, place, e)
			top = top[:min(len(top), n)]
		}
	}
	return top
}

// TopOldest is Top in the order OldestFirst, of the keys in these states. It explains no others than those. What the
// queue has in that order it takes from there. Of other states it looks at all keys that may be in them; if these are
// many, a ranking is kept, in which keys are missing that came since it was made.
func (x *Explainer) TopOldest(n int, states ...State) []Explanation {
	return x.top(n, Filter{States: states}, false)
}

// TopFailing is Top in the order MostFailingFirst, of the keys in these states. It looks at keys that have failed, and
// at others only if those are too few. If many have failed, a ranking is kept, as for TopOldest. A key that has failed
// more often since it was made may be behind its place, or missing, until it is made anew.
func (x *Explainer) TopFailing(n int, states ...State) []Explanation {
	top := x.top(n, Filter{States: states}, true)
	if len(top) >= n {
		return top
	}
	has := map[string]bool{}
	for i := range top {
		has[top[i].Key] = true
	}
	for e := range x.Each("", states...) {
		if len(top) >= n {
			break
		}
		if !has[e.Key] {
			top = append(top, e)
		}
	}
	slices.SortStableFunc(top, MostFailingFirst)
	return top
}

// top is the first keys of each choice, and of those the first. Failed ones are in the order MostFailingFirst, and no
// others are among them; else the order is OldestFirst.
func (x *Explainer) top(n int, of Filter, failed bool) (top []Explanation) {
	if n <= 0 {
		return nil
	}
	order := OldestFirst
	if failed {
		order = MostFailingFirst
	}
	has := map[string]bool{} // a key may move to another state between two choices
	for _, c := range of.choices() {
		c.failed = failed
		for _, key := range x.first(n, c) {
			if e := x.explain(key); of.chooses(&e) && !has[e.Key] {
				has[e.Key] = true
				top = append(top, e)
			}
		}
	}
	slices.SortFunc(top, func(a, b Explanation) int { return cmp.Or(order(a, b), cmp.Compare(a.Key, b.Key)) })
	return top[:min(len(top), n)]
}

// first are the keys that are the first in the order of a choice, or a few more.
func (x *Explainer) first(n int, c choice) []string {
	index, stream := x.index(), x.Primary.StreamID()
	look := func(key string) (glance, bool) {
		index.visited.Add(1)
		g := x.glance(key, stream)
		return g, c.has(&g)
	}
	if class, ok := aged[c.state]; ok && !c.failed {
		if keys, ok := x.oldestIn(class, n, look); ok {
			return keys
		}
	}
	return index.rankings.of(c).get(func() (*ranking, int) {
		l, looked := index.unordered(x, c)
		r := &ranking{failed: c.failed}
		for key := range merged(append(index.sets(x, c), l.run())) {
			looked++
			if g, is := look(index.meant(key, l)); is {
				r.keys = append(r.keys, g)
			}
		}
		heap.Init(r)
		return r, looked
	}).first(n, look)
}

// aged are the states of keys that the queue has in the order OldestFirst, and few others with them.
var aged = map[State]queue.Class{
	Ready: queue.Ready, Requeue: queue.Requeued, Debounced: queue.Quiet, Delayed: queue.ByUser,
}

// oldestIn are the oldest of a class that are in its state. It is not ok if they are behind too many that are not.
func (x *Explainer) oldestIn(
	class queue.Class, n int, look func(string) (glance, bool),
) (oldest []string, ok bool) {
	for most := min(n, fewKeys) + 16; ; most *= 4 {
		keys, all := x.Queue.Oldest(class, most)
		oldest = nil
		for _, key := range keys {
			if _, is := look(key); is {
				oldest = append(oldest, key)
			}
			if len(oldest) == n {
				return oldest, true
			}
		}
		if all || most > fewKeys {
			return oldest, all
		}
	}
}

// ranking is keys of a choice, the first in its order in front: it implements heap.Interface. Of a key whose rank has
// changed since it knows nothing before the key is in front.
type ranking struct {
	failed bool // the order is MostFailingFirst, and else OldestFirst

	mu   sync.Mutex
	keys []glance
}

// first are the n first keys. It looks at them, and at those in front of them that have left, or got another rank,
// which it notes. Of those that fail most it keeps the ones that run at this moment.
func (r *ranking) first(n int, look func(key string) (glance, bool)) (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first, run []glance
	for len(first) < n && len(r.keys) > 0 {
		key := r.keys[0].key
		now, is := look(key)
		if !is {
			gone := heap.Pop(r).(glance)
			if r.failed && (now.state == Running || now.state == Handling) { // no more than workers; it may fail again
				gone.failures = now.failures
				run = append(run, gone)
			}
			continue
		}
		r.keys[0] = now
		if heap.Fix(r, 0); r.keys[0].key == key {
			first = append(first, heap.Pop(r).(glance))
		}
	}
	for _, g := range first {
		keys = append(keys, g.key)
		heap.Push(r, g)
	}
	for _, g := range run {
		heap.Push(r, g)
	}
	return keys
}

func (r *ranking) Len() int { return len(r.keys) }

func (r *ranking) Less(i, j int) bool {
	a, b := &r.keys[i], &r.keys[j]
	order := oldestFirst(a.since, b.since)
	if r.failed {
		order = cmp.Compare(b.failures, a.failures)
	}
	return cmp.Or(order, cmp.Compare(a.key, b.key)) < 0
}

func (r *ranking) Swap(i, j int) { r.keys[i], r.keys[j] = r.keys[j], r.keys[i] }

func (r *ranking) Push(g any) { r.keys = append(r.keys, g.(glance)) }

func (r *ranking) Pop() any {
	last := len(r.keys) - 1
	g := r.keys[last]
	r.keys = r.keys[:last]
	return g
}

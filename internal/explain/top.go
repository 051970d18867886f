package explain

import (
	"iter"
	"slices"
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

// TopOldest is Top in the order OldestFirst, of the keys in these states. It explains no others than those.
func (x *Explainer) TopOldest(n int, states ...State) []Explanation {
	return x.explained(Top(x.brief(x.lists(Filter{States: states}), states), n, OldestFirst))
}

// TopFailing is Top in the order MostFailingFirst, of the keys in these states. It looks at keys that have failed, and
// at others only if those are too few.
func (x *Explainer) TopFailing(n int, states ...State) []Explanation {
	failed := &lists{index: x.index()}
	sorted, malformed := failed.index.snapshot(x, failing)
	failed.runs = []run{{keys: sorted}}
	failed.name(malformed)
	top := x.explained(Top(x.brief(failed, states), n, MostFailingFirst))
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

// brief looks at keys once, and says of those in the states no more than the orders of this package ask for.
func (x *Explainer) brief(l *lists, states []State) iter.Seq[Explanation] {
	return func(yield func(Explanation) bool) {
		stream := x.Primary.StreamID()
		for key := range l.from("", "") {
			e := Explanation{Key: key}
			if malformed, ok := l.meant(key); ok && !x.WellFormed(malformed) {
				e.Key, e.State = malformed, Malformed
			} else {
				f := x.lookOnce(key)
				e.State, e.Since = f.stateOf(stream)
				e.Failures = f.failures()
			}
			if len(states) == 0 && e.State != Unknown || slices.Contains(states, e.State) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// explained explains keys that were looked at.
func (x *Explainer) explained(brief []Explanation) []Explanation {
	for i := range brief {
		brief[i] = x.Explain(brief[i].Key)
	}
	return brief
}

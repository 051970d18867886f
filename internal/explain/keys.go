package explain

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Each iterates over the keys after one, in the order of the alphabet, that are in one of these states; of none given:
// all that are known, malformed ones among them. It holds no lock while it iterates, and each key is explained when its
// turn comes: one that came later is missing, and one that has left the state meanwhile is left out.
func (x *Explainer) Each(after string, states ...State) iter.Seq[Explanation] {
	return x.Within(context.Background(), "", after, states...)
}

// Within is Each for the keys that begin with a prefix, and no others are explained. It stops when ctx has ended, which
// may be before anything was found.
func (x *Explainer) Within(ctx context.Context, prefix, after string, states ...State) iter.Seq[Explanation] {
	return func(yield func(Explanation) bool) {
		keys, malformed := x.shown(x.candidates(states))
		keys = slices.DeleteFunc(keys, func(key string) bool { return key <= after || !strings.HasPrefix(key, prefix) })
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if ctx.Err() != nil {
				return
			}
			e := x.Explain(cmp.Or(malformed[key], key))
			if (len(states) == 0 && e.State != Unknown || slices.Contains(states, e.State)) && !yield(e) {
				return
			}
		}
	}
}

// shown replaces malformed keys by what answers call them, which is where a page goes on, and tells which they are.
func (x *Explainer) shown(keys []string) (shown []string, malformed map[string]string) {
	for i, key := range keys {
		if x.WellFormed(key) {
			continue
		}
		if malformed == nil {
			malformed = map[string]string{}
		}
		keys[i] = printable.Text(key)
		malformed[keys[i]] = key
	}
	return keys, malformed
}

// inQueue are the states of keys of which the queue knows something.
var inQueue = []State{
	Running, Handling, Ready, Turn, OwnWrites, Name, Looping, Retry, Requeue, Debounced, Delayed,
}

// unusual are the states of keys that the table has something of.
var unusual = []State{Parked, API}

// candidates lists all keys that may be in one of the states, some maybe twice.
func (x *Explainer) candidates(states []State) (keys []string) {
	within := func(some []State) bool {
		return len(states) > 0 && !slices.ContainsFunc(states, func(s State) bool { return !slices.Contains(some, s) })
	}
	switch {
	case within(inQueue):
		return x.Queue.Keys()
	case within(unusual):
		return x.Keys.Keys()
	case within([]State{Invalid, Malformed}):
		return append(x.Primary.InvalidKeys(), x.recorded(func(key string, r *entity.Record) bool {
			return r.Invalid != nil // some of them decode, and no record can hold them
		})...)
	}
	keys = slices.Concat(x.Queue.Keys(), x.Keys.Keys(), x.held())
	if within([]State{Held, Deleting}) {
		return append(keys, x.recorded(func(key string, r *entity.Record) bool {
			return x.Primary.View(key).Presence == source.Absent
		})...)
	}
	keys = append(keys, x.recorded(func(string, *entity.Record) bool { return true })...)
	keys = append(append(keys, x.Primary.Keys()...), x.Primary.InvalidKeys()...)
	if x.Records != nil {
		keys = append(keys, x.Records.UnreadableKeys()...) // there may be nothing else of them
	}
	return keys
}

// held lists the keys whose delete the brake holds, and the missing owners: of those there may be no other trace.
func (x *Explainer) held() []string {
	if x.Brake == nil {
		return nil
	}
	waiting, _, unknown := x.Brake.Held()
	return waiting.Union(unknown).UnsortedList()
}

// recorded lists the keys of the records that f chooses.
func (x *Explainer) recorded(f func(key string, r *entity.Record) bool) (keys []string) {
	if x.Records == nil {
		return nil
	}
	for key, r := range x.Records.All() {
		if f(key, r) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Top returns the n first of all in an order, as slices.SortFunc has it, and keeps no more than them.
func Top[E any](all iter.Seq[E], n int, compare func(a, b E) int) (top []E) {
	for e := range all {
		place, _ := slices.BinarySearchFunc(top, e, func(a, b E) int {
			if compare(a, b) <= 0 {
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

// OldestFirst orders by Since; zero comes last.
func OldestFirst(a, b Explanation) int {
	switch {
	case a.Since.IsZero() == b.Since.IsZero():
		return a.Since.Compare(b.Since)
	case a.Since.IsZero():
		return 1
	}
	return -1
}

// MostFailingFirst orders by Failures.
func MostFailingFirst(a, b Explanation) int { return cmp.Compare(b.Failures, a.Failures) }

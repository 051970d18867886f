package explain

import (
	"iter"
	"maps"
	"slices"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
)

// origin is a list of keys that some states may be about.
type origin uint8

// The first ones are in no order, and snapshots put them in one; the last are sets of the Index.
const (
	inHand origin = iota
	due
	waiting
	byUser
	queued
	failing
	parked
	awaiting
	writing
	looping
	deleting
	unusual
	held
	pruning
	invalid
	unreadable
	originsCount

	known
	lost
	refused
	asleep
	behind
)

// everything is where a key may be of which anything is known.
var everything = []origin{known, queued, unusual, held, invalid, unreadable}

// originsOf are the lists that have all keys of a state, and few others. A state that is not here may be anywhere.
var originsOf = map[State][]origin{
	Running: {inHand}, Handling: {inHand}, Ready: {due}, Debounced: {waiting}, Requeue: {waiting}, Delayed: {byUser},
	Turn: {awaiting}, API: {awaiting}, OwnWrites: {writing}, Name: {failing}, Retry: {failing}, Looping: {looping},
	Parked: {parked}, Held: {held}, Deleting: {deleting, lost}, Suspended: {asleep}, Unreconciled: {behind},
	Invalid: {invalid, refused}, Malformed: {invalid}, Unreadable: {unreadable},
}

// troubled is where a key may be that is not well.
var troubled = []origin{
	failing, parked, awaiting, looping, deleting, lost, held, pruning, invalid, refused, unreadable, asleep,
}

// lists are the sorted lists of a listing.
type lists struct {
	index     *Index
	runs      []run
	malformed map[string]string // of snapshots, by what answers call them
	names     bool              // the index has malformed keys, too
}

// index is that of the controller, or one for now.
func (x *Explainer) index() *Index {
	index := x.Index
	if index == nil {
		index = &Index{}
	}
	index.begin(x)
	return index
}

// lists are those that a filter needs.
func (x *Explainer) lists(of Filter) *lists {
	need := everything
	if of.NotOK {
		need = troubled
	}
	if len(of.States) > 0 {
		var some []origin
		for _, state := range of.States {
			origins, ok := originsOf[state]
			if !ok {
				some = nil
				break
			}
			some = append(some, origins...)
		}
		if some != nil {
			need = some
		}
	}
	need = slices.Compact(slices.Sorted(slices.Values(need)))
	index := x.index()
	l := &lists{index: index}
	for _, o := range need {
		if o > originsCount {
			l.runs = append(l.runs, index.set(o).runs()...)
			continue
		}
		sorted, malformed := index.snapshot(x, o)
		l.runs = append(l.runs, run{keys: sorted})
		l.name(malformed)
	}
	l.names = index.malformed.any()
	return l
}

// name notes what malformed keys are called.
func (l *lists) name(malformed map[string]string) {
	if len(malformed) > 0 && l.malformed == nil {
		l.malformed = map[string]string{}
	}
	maps.Copy(l.malformed, malformed)
}

// meant is the malformed key that answers call so; it is not ok if none is.
func (l *lists) meant(called string) (key string, ok bool) {
	if key, ok = l.malformed[called]; !ok && l.names {
		key, ok = l.index.malformed.get(called)
	}
	return key, ok
}

// from iterates over the keys that begin with a prefix and come after a key.
func (l *lists) from(prefix, after string) iter.Seq[string] {
	return func(yield func(string) bool) {
		runs := slices.Clone(l.runs)
		for i := range runs {
			runs[i].keys = between(runs[i].keys, prefix, after)
		}
		for key := range merged(runs) {
			l.index.visited.Add(1)
			if !yield(key) {
				return
			}
		}
	}
}

func (i *Index) set(o origin) *Set {
	switch o {
	case lost:
		return &i.lost
	case refused:
		return &i.refused
	case asleep:
		return &i.asleep
	case behind:
		return &i.behind
	}
	return &i.known
}

// snapshot is the list of an origin that has no order.
func (i *Index) snapshot(x *Explainer, o origin) (sorted []string, malformed map[string]string) {
	sorted, malformed, copied := i.snapshots[o].list(func() ([]string, map[string]string) {
		return x.shown(x.keysOf(o))
	})
	i.visited.Add(int64(copied))
	return sorted, malformed
}

var classes = map[origin]queue.Class{
	inHand: queue.InHand, due: queue.Due, waiting: queue.Waiting, byUser: queue.ByUser, queued: queue.AnyClass,
}

var unusualIn = map[origin]func(*keytable.State) bool{
	failing:  func(s *keytable.State) bool { return s.Failures+s.RecordFailures+s.Refusals > 0 },
	parked:   func(s *keytable.State) bool { return s.Parked != nil },
	awaiting: func(s *keytable.State) bool { return s.Awaits.Kind != "" },
	writing:  func(s *keytable.State) bool { return !s.AwaitsWrites().IsZero() },
	looping:  func(s *keytable.State) bool { return s.Looping },
	deleting: func(s *keytable.State) bool { return s.Owed || s.Deleted != nil || s.CleanUp != nil },
	unusual:  func(*keytable.State) bool { return true },
}

// keysOf copies the keys of an origin that has no order.
func (x *Explainer) keysOf(o origin) []string {
	if class, ok := classes[o]; ok {
		return x.Queue.KeysIn(class)
	}
	if is := unusualIn[o]; is != nil {
		return x.Keys.KeysWhere(is)
	}
	switch {
	case o == invalid:
		return x.Primary.InvalidKeys()
	case o == unreadable && x.Records != nil:
		return x.Records.UnreadableKeys()
	case x.Brake == nil:
		return nil
	}
	var some sets.Set[string]
	switch waiting, pruned, missing := x.Brake.Held(); o {
	case held: // of missing owners there may be no other trace
		some = waiting.Union(missing)
	case pruning:
		some = pruned
	}
	return some.UnsortedList()
}

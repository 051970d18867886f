package explain

import (
	"slices"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/apimachinery/pkg/util/sets"
)

// origin is a list of keys that some states may be about.
type origin uint8

// The first ones have no order, and lists are made of them; the last are sets of the Index.
const (
	inHand origin = iota
	ready
	quiet
	requeued
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
	Running: {inHand}, Handling: {inHand}, Ready: {ready}, Debounced: {quiet}, Requeue: {requeued}, Delayed: {byUser},
	Turn: {awaiting}, API: {awaiting}, OwnWrites: {writing}, Name: {failing}, Retry: {failing}, Looping: {looping},
	Parked: {parked}, Held: {held}, Deleting: {deleting, lost}, Suspended: {asleep}, Unreconciled: {behind},
	Invalid: {invalid, refused}, Malformed: {invalid}, Unreadable: {unreadable},
}

// troubled is where a key may be that is not well.
var troubled = []origin{
	failing, parked, awaiting, looping, deleting, lost, held, pruning, invalid, refused, unreadable, asleep,
}

// troubledShared is the same where replicas share the keys: of one of another member the record tells.
var troubledShared = append(slices.Clone(troubled), behind)

// index is that of the controller, or one for now.
func (x *Explainer) index() *Index {
	index := x.Index
	if index == nil {
		index = &Index{}
	}
	index.begin(x)
	return index
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

var classes = map[origin]queue.Class{
	inHand: queue.InHand, ready: queue.Ready, quiet: queue.Quiet, requeued: queue.Requeued, byUser: queue.ByUser,
	queued: queue.AnyClass,
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

// keysOf copies the keys of those origins that have no order, and tells how many it looked at for that.
func (x *Explainer) keysOf(origins []origin) (keys []string, looked int) {
	var are []func(*keytable.State) bool
	for _, o := range origins {
		if is := unusualIn[o]; is != nil {
			are = append(are, is)
		} else if o < originsCount {
			keys = append(keys, x.elsewhere(o)...)
		}
	}
	looked = len(keys)
	if len(are) > 0 {
		looked += x.Keys.Len()
		keys = append(keys, x.Keys.KeysWhere(func(s *keytable.State) bool {
			return slices.ContainsFunc(are, func(is func(*keytable.State) bool) bool { return is(s) })
		})...)
	}
	return keys, looked
}

// elsewhere copies the keys of an origin that has no order and is not in the table.
func (x *Explainer) elsewhere(o origin) []string {
	if class, ok := classes[o]; ok {
		return x.Queue.KeysIn(class)
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

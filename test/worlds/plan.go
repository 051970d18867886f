package worlds

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is what happens in a night.
type Plan struct {
	Seed     uint64
	Replicas int
	Workers  int
	Keys     int // documents that users have
	File     bool
	Resync   time.Duration
	Compare  time.Duration // of the clients: a subject reads it
	Length   time.Duration // of the time with faults
	Shards   int           // into how many slots the keys are divided that all replicas share; 0: one works
	Events   []Event       // in the order of their times
}

// Event is one thing that happens.
type Event struct {
	At   time.Duration // since the world began
	Step step          // it happens at the first one since At; "" is at At
	When moment        // before or after the step
	Do   deed
	For  time.Duration // how long it lasts, where it lasts
	Key  string        // a user's document
	Who  int           // which replica, in the order of their starts; or Leader or Doer
	Dice uint64        // what else there is to choose
}

// Leader is the replica that leads when an event happens, Doer the one whose step it happens at.
const (
	Leader = -1
	Doer   = -2
)

// String is a line of a plan: when, what, to which replica or document, and for how long.
func (e Event) String() string {
	s := fmt.Sprintf("%9.3f ", e.At.Seconds())
	if e.Step != "" {
		s += fmt.Sprintf("%s the next step %q: ", e.When, e.Step)
	}
	s += string(e.Do)
	if e.Do == clock {
		s += fmt.Sprintf(" by %v", e.jump())
	}
	if about[e.Do].to == aReplica {
		switch e.Who {
		case Leader:
			s += " (the leader)"
		case Doer:
			s += " (the replica of the step)"
		default:
			s += fmt.Sprintf(" (replica %d)", e.Who)
		}
	}
	if e.Key != "" {
		s += " " + e.Key
	} else if about[e.Do].key {
		s += " (the document of the step)"
	}
	if e.For > 0 {
		s += fmt.Sprintf(" for %v", e.For)
	}
	return s
}

// String is what a night has, and its events, a line each.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d replicas, %d workers, %d keys, %d shards, file storage %v, resync %v, compare %v, "+
		"faults for %v\n", p.Seed, p.Replicas, p.Workers, p.Keys, p.Shards, p.File, p.Resync, p.Compare, p.Length)
	for _, e := range p.Events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// Has reports whether one of some deeds is in the plan.
func (p Plan) Has(deeds ...deed) bool {
	return slices.ContainsFunc(p.Events, func(e Event) bool { return slices.Contains(deeds, e.Do) })
}

// LosesRecords reports whether records may be lost, or go back to older ones: a resource behind an API whose creation
// only a record knew may then be there twice.
func (p Plan) LosesRecords() bool { return p.Has(backupRecords, noRecords, empty) }

// Dice are random numbers of the plan's seed and the words: the same for the same.
func (p Plan) Dice(words ...any) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, hash(words...)))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// between returns a time of at least a and less than b.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// PlanOf makes the plan of a seed. Half of the nights, those of the odd seeds, have pairs of faults at durable steps; in
// the others some deeds are chosen for the night, and happen again and again at any time.
func PlanOf(seed uint64) Plan {
	p := Plan{Seed: seed}
	r := p.Dice("plan")
	p.Replicas, p.Workers, p.Keys = 2+r.IntN(2), 1+r.IntN(4), pick(r, 4, 8, 16)
	p.File = r.IntN(3) > 0
	p.Resync = pick(r, time.Minute, 10*time.Minute)
	p.Compare = pick(r, 30*time.Second, 3*time.Minute)
	p.Length = 6 * time.Minute
	if p.isAtSteps() {
		p.Events = p.pairs()
	} else {
		p.Events = p.surprises(r)
	}
	for at := time.Second; at < p.Length; {
		e := Event{At: at, Do: pick(r, everyday...), Dice: r.Uint64()}
		e.Key = p.Key(r.IntN(p.Keys))
		p.Events = append(p.Events, e)
		at += between(r, 0, 4*time.Second)
		if r.IntN(20) == 0 {
			at += 40 * time.Second
		}
	}
	sortEvents(p.Events)
	return p
}

func sortEvents(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

// surprises are faults at any time: some kinds, again and again.
func (p Plan) surprises(r *rand.Rand) (events []Event) {
	menu := faults()
	r.Shuffle(len(menu), func(i, j int) { menu[i], menu[j] = menu[j], menu[i] })
	menu = menu[:2+r.IntN(6)]
	mean := pick(r, 4*time.Second, 12*time.Second)
	for at := 5 * time.Second; at < p.Length; at += between(r, mean/4, mean*7/4) {
		do := menu[r.IntN(len(menu))]
		if do == serverRestarts && !p.File {
			do = cut
		}
		e := Event{At: at, Do: do, For: between(r, time.Second, 40*time.Second), Who: Leader, Dice: r.Uint64()}
		if r.IntN(3) == 0 {
			e.Who = r.IntN(p.Replicas)
		}
		if about[do].key {
			e.Key = p.Key(r.IntN(p.Keys))
		}
		if !about[do].lasts {
			e.For = 0
		}
		events = append(events, e)
	}
	return events
}

// Key is the i-th key of a plan.
func (p Plan) Key(i int) string { return fmt.Sprint("k", i) }

// SlotCaches reports whether caches have what belongs to the slots of a replica: in each other night with shards.
func (p Plan) SlotCaches() bool { return p.Shards > 0 && p.Seed%2 == 0 }

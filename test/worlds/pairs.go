package worlds

import (
	"math/rand/v2"
	"slices"
	"time"
)

// occasion is a deed on one side of a step.
type occasion struct {
	step step
	when moment
	do   deed
}

// perNight is how many deeds at steps a night has.
const perNight = 24

// occasions are each deed before and after each step, in an order that is the same each time.
func occasions() (all []occasion) {
	deeds := append(faults(), put, remove, recreate)
	for _, s := range steps {
		for _, d := range deeds {
			all = append(all, occasion{s, before, d}, occasion{s, after, d})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// isAtSteps reports whether it is a night with faults at steps.
func (p Plan) isAtSteps() bool { return p.Seed%2 == 1 }

// pairs are faults at steps, two close to each other and then two others. Nights of seeds in a row take the occasions in
// turn, so each comes once in some 120 seeds. A replica that is stopped and started now and then brings terms.
func (p Plan) pairs() (events []Event) {
	r := p.Dice("pairs")
	all := occasions()
	first := int(p.Seed / 2 % uint64(len(all)) * perNight % uint64(len(all)))
	const each = 13 * time.Second
	for i := range perNight {
		o := all[(first+i)%len(all)]
		at := 5*time.Second + time.Duration(i/2*2)*each + time.Duration(i%2)*between(r, 0, 5*time.Second)
		e := Event{
			At: at, Step: o.step, When: o.when, Do: o.do, Who: Doer, For: between(r, time.Second, 40*time.Second),
			Dice: r.Uint64(),
		}
		if o.do == serverRestarts && !p.File {
			e.Do = cut
		}
		if o.step == claim || o.step == installation {
			e.At = 0 // these come at the start, and where what they wrote has vanished
		}
		switch r.IntN(4) {
		case 0:
			e.Who = Leader
		case 1:
			e.Who = r.IntN(p.Replicas)
		}
		if !about[e.Do].lasts {
			e.For = 0
		}
		events = append(events, e)
	}
	for at := 20 * time.Second; at < p.Length; at += between(r, 30*time.Second, 90*time.Second) {
		events = append(events, Event{At: at, Do: update, Who: Leader, For: between(r, time.Second, 40*time.Second), Dice: r.Uint64()})
	}
	return events
}

// atSteps are the events that wait for a step.
func (p Plan) atSteps() []Event {
	return slices.DeleteFunc(slices.Clone(p.Events), func(e Event) bool { return e.Step == "" })
}

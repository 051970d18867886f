package explain

import (
	"slices"
	"time"
)

// choice is which keys are asked for: those in a state, or in any, and of those the ones that are not well, or that
// have failed. The zero choice is all that are known.
type choice struct {
	state         State
	notOK, failed bool
}

// choices are what a filter chooses.
func (f Filter) choices() (all []choice) {
	if len(f.States) == 0 {
		return []choice{{notOK: f.NotOK}}
	}
	for _, state := range f.States {
		c := choice{state: state, notOK: f.NotOK}
		if slices.Contains(States, state) && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// originsOf are where keys of a choice may be.
func (x *Explainer) originsOf(c choice) []origin {
	switch origins, ok := originsOf[c.state]; {
	case c.failed:
		return []origin{failing}
	case ok:
		return origins
	case c.notOK && c.state == "" && x.Share != nil:
		return troubledShared
	case c.notOK && c.state == "":
		return troubled
	}
	return everything
}

// glance is what choices and orders ask of a key.
type glance struct {
	key      string
	state    State
	since    time.Time
	failures int
	notOK    bool
}

// glance looks at a key once. That is cheaper than to explain it.
func (x *Explainer) glance(key, stream string) glance {
	if !x.WellFormed(key) {
		return glance{key: key, state: Malformed, notOK: true}
	}
	f := x.lookOnce(key)
	g := glance{key: key, failures: f.failures()}
	g.state, g.since = f.stateOf(stream)
	g.notOK = slices.Contains(notWell, g.state) || g.failures > 0 ||
		f.held || f.holdsPrune || f.staysParked() || f.owed() || g.state == Elsewhere && f.recordedNotOK()
	return g
}

// has reports whether the key is one of the choice.
func (c choice) has(g *glance) bool {
	switch {
	case c.state == "" && g.state == Unknown, c.state != "" && g.state != c.state:
		return false
	case c.notOK && !g.notOK, c.failed && g.failures == 0:
		return false
	}
	return true
}

// list is keys in the order of the alphabet. A complete one has those of a choice, as they were when it was made, and
// forgets those that are found to have left. Any other has all keys of the origins of a choice that have no order.
type list struct {
	keys      []string
	malformed map[string]string // by what answers call them
	complete  bool              // none of the choice is elsewhere
	left      left
}

func (l *list) run() run { return run{keys: l.keys, left: &l.left} }

// list is that of a choice. It is complete if that is asked for, or if the origins that have no order have many keys.
func (i *Index) list(x *Explainer, c choice, complete bool) *list {
	return i.lists.of(c).get(func() (*list, int) {
		l, looked := i.unordered(x, c)
		if looked <= fewKeys && !complete {
			return l, looked
		}
		all := append(i.sets(x, c), l.run())
		l.keys, l.complete = nil, true
		stream := x.Primary.StreamID()
		for key := range merged(all) {
			looked++
			if g := x.glance(i.meant(key, l), stream); c.has(&g) {
				l.keys = append(l.keys, key)
			}
		}
		i.visited.Add(int64(looked))
		return l, looked
	})
}

// sets are those of a choice.
func (i *Index) sets(x *Explainer, c choice) (runs []run) {
	for _, o := range x.originsOf(c) {
		if o > originsCount {
			runs = append(runs, i.set(o).runs()...)
		}
	}
	return runs
}

// meant is the key that answers call so: they are the same, but for a malformed one of the index, or of lists.
func (i *Index) meant(called string, lists ...*list) string {
	for _, l := range lists {
		if key, ok := l.malformed[called]; ok {
			return key
		}
	}
	if key, ok := i.malformed.get(called); ok {
		return key
	}
	return called
}

// unordered is the list of those origins of a choice that have no order, and how many keys were looked at for it.
func (i *Index) unordered(x *Explainer, c choice) (l *list, looked int) {
	keys, looked := x.keysOf(x.originsOf(c))
	i.visited.Add(int64(looked))
	l = &list{}
	keys, l.malformed = x.shown(keys)
	slices.Sort(keys)
	l.keys = slices.Compact(keys)
	return l, looked
}

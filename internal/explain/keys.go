package explain

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
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
	return x.Listed(ctx, prefix, after, Filter{States: states})
}

// Filter says which keys are listed. The zero Filter lists all that are known, malformed ones among them.
type Filter struct {
	States []State // those in one of them; none: in any
	NotOK  bool    // and of those the ones that are not well, see Explanation.NotOK
}

// Listed is Within for the keys that a filter chooses. What it costs is what it shows: it goes through sorted lists
// from behind the last page on, of no more than what may be chosen. After fewKeys that were not chosen it goes on in
// complete lists, which are kept: keys that came since these were made are missing.
func (x *Explainer) Listed(ctx context.Context, prefix, after string, of Filter) iter.Seq[Explanation] {
	return func(yield func(Explanation) bool) {
		p := &listing{
			x: x, index: x.index(), of: of, choices: of.choices(), after: after, stream: x.Primary.StreamID(),
		}
		if !p.through(ctx, prefix, p.lists(false), yield) {
			p.through(ctx, prefix, p.lists(true), yield)
		}
	}
}

// listing is one under way.
type listing struct {
	x             *Explainer
	index         *Index
	of            Filter
	choices       []choice
	after, stream string
	listed        []*list // the lists that it goes through, of any order
	inVain        int     // how many keys were looked at that are not chosen
}

// lists are the sorted keys to go through. Complete ones have what is chosen, and little else; others have besides what
// may be chosen, and what came a moment ago.
func (p *listing) lists(complete bool) (runs []run) {
	p.listed = nil
	for _, c := range p.choices {
		l := p.index.list(p.x, c, complete)
		p.listed = append(p.listed, l)
		if runs = append(runs, l.run()); !l.complete || c == (choice{}) && !complete {
			runs = append(runs, p.index.sets(p.x, c)...)
		}
	}
	return runs
}

// through yields what is chosen of lists. It is not over if it has looked at too many keys in vain, once.
func (p *listing) through(ctx context.Context, prefix string, runs []run, yield func(Explanation) bool) (over bool) {
	for i := range runs {
		runs[i] = runs[i].between(prefix, p.after)
	}
	for called, drop := range merged(runs) {
		if ctx.Err() != nil {
			return true
		}
		p.index.visited.Add(1)
		p.after = called
		if e, chosen := p.chosen(p.index.meant(called, p.listed...)); chosen {
			if !yield(e) {
				return true
			}
			continue
		}
		drop()
		if p.inVain++; p.inVain == fewKeys {
			return false
		}
	}
	return true
}

// chosen explains a key if it is chosen. One look, which is cheaper, tells of most that are not.
func (p *listing) chosen(key string) (e Explanation, is bool) {
	if len(p.of.States) > 0 || p.of.NotOK {
		g := p.x.glance(key, p.stream)
		if !slices.ContainsFunc(p.choices, func(c choice) bool { return c.has(&g) }) {
			return e, false
		}
	}
	e = p.x.explain(key)
	return e, p.of.chooses(&e)
}

func (f Filter) chooses(e *Explanation) bool {
	if len(f.States) == 0 && e.State == Unknown || f.NotOK && !e.NotOK() {
		return false
	}
	return len(f.States) == 0 || slices.Contains(f.States, e.State)
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

// OldestFirst orders by Since; zero comes last.
func OldestFirst(a, b Explanation) int { return oldestFirst(a.Since, b.Since) }

func oldestFirst(a, b time.Time) int {
	switch {
	case a.IsZero() == b.IsZero():
		return a.Compare(b)
	case a.IsZero():
		return 1
	}
	return -1
}

// MostFailingFirst orders by Failures.
func MostFailingFirst(a, b Explanation) int { return cmp.Compare(b.Failures, a.Failures) }

package explain

import (
	"cmp"
	"context"
	"iter"
	"slices"

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
// from behind the last page on, of no more than what may be chosen.
func (x *Explainer) Listed(ctx context.Context, prefix, after string, of Filter) iter.Seq[Explanation] {
	return func(yield func(Explanation) bool) {
		l := x.lists(of)
		stream := x.Primary.StreamID()
		for key := range l.from(prefix, after) {
			if ctx.Err() != nil {
				return
			}
			if malformed, ok := l.meant(key); ok {
				key = malformed
			}
			if !x.mayBe(of, key, stream) {
				continue
			}
			e := x.Explain(key)
			if e.State != Unknown && of.chooses(&e) || slices.Contains(of.States, e.State) && !of.NotOK {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (f Filter) chooses(e *Explanation) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, e.State)) && (!f.NotOK || e.NotOK())
}

// mayBe looks at a key once, and reports whether it may be chosen. That is cheaper than to explain it.
func (x *Explainer) mayBe(of Filter, key, stream string) bool {
	if len(of.States) == 0 || !x.WellFormed(key) {
		return true
	}
	f := x.lookOnce(key)
	state, _ := f.stateOf(stream)
	return slices.Contains(of.States, state)
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

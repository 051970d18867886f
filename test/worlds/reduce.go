package worlds

import (
	"slices"
	"testing"
)

// reduce plays a plan that breaks a rule again with parts of it left out, at most most times, and returns the shortest
// that still breaks the same rule, with what was noted then. A night is not played twice in quite the same way, so the
// result may be longer than it needs to be, but what is returned has broken the rule.
func reduce(t *testing.T, s Maker, p Plan, broken []Broken, lines []line, most int) (Plan, []Broken, []line) {
	t.Helper()
	rule := broken[0].Rule
	for size := (len(p.Events) + 1) / 2; size > 0 && most > 0; size /= 2 {
		for from := 0; from < len(p.Events) && most > 0; {
			less := p
			less.Events = slices.Delete(slices.Clone(p.Events), from, min(from+size, len(p.Events)))
			most--
			b, l := play(t, s, less)
			if i := slices.IndexFunc(b, func(b Broken) bool { return b.Rule == rule }); i >= 0 {
				p, broken, lines = less, append([]Broken{b[i]}, b...), l
			} else {
				from += size
			}
		}
	}
	return p, broken, lines
}

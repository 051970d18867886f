package worlds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Seeds are N seeds in a row. With Shards the replicas share the keys, divided into so many slots.
type Seeds struct {
	From   uint64
	N      int
	Shards int
}

// Nights plays a night for each seed, as many at a time as -parallel says. A night that breaks a rule fails the test,
// with the shortest plan that was found to break the same rule.
func Nights(t *testing.T, s Maker, seeds Seeds) {
	t.Helper()
	for i := range seeds.N {
		seed := seeds.From + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := PlanOf(seed)
			if seeds.Shards > 0 {
				p = p.Sharing(seeds.Shards)
			}
			Play(t, s, p)
		})
	}
}

// Play plays one plan, as Nights does.
func Play(t *testing.T, s Maker, p Plan) {
	t.Helper()
	began := time.Now()
	broken, lines := play(t, s, p)
	keep(t, p, broken, lines)
	if len(broken) == 0 {
		t.Logf("played in %v", time.Since(began).Round(time.Millisecond))
		return
	}
	if most := reductions(); most > 0 {
		p, broken, lines = reduce(t, s, p, broken, lines, most)
	}
	t.Errorf("%s\n%s\nwhat happened around the first:\n%s", list(broken), p, around(broken[0], lines))
}

// reductions is how often a night that broke a rule is played again to find a shorter plan: NAGI_REDUCE, or 30 times.
func reductions() int {
	if n, err := strconv.Atoi(os.Getenv("NAGI_REDUCE")); err == nil {
		return n
	}
	return 30
}

func list(broken []Broken) string {
	var b strings.Builder
	for _, one := range broken[:min(len(broken), 8)] {
		fmt.Fprintln(&b, one)
	}
	return b.String()
}

// around are the last lines before a rule was broken, and some after.
func around(b Broken, lines []line) string {
	const most, before, after = 150, time.Minute, time.Second
	first := slices.IndexFunc(lines, func(l line) bool { return l.at >= b.At-before })
	last := slices.IndexFunc(lines, func(l line) bool { return l.at > b.At+after })
	if last < 0 {
		last = len(lines)
	}
	var s strings.Builder
	for _, l := range lines[max(first, last-most):last] {
		fmt.Fprintln(&s, l)
	}
	return s.String()
}

// keep writes all that was noted to a file of the directory NAGI_WORLDS, if that is set.
func keep(t *testing.T, p Plan, broken []Broken, lines []line) {
	t.Helper()
	dir := os.Getenv("NAGI_WORLDS")
	if dir == "" {
		return
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s\n%s", list(broken), p)
	for _, l := range lines {
		fmt.Fprintln(&s, l)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(p.Seed, ".log")), []byte(s.String()), 0o600); err != nil {
		t.Error(err)
	}
}

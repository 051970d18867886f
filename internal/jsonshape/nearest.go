package jsonshape

import (
	"slices"
	"strings"
)

// longestMeant is how long a name may be for which another one is looked for.
const longestMeant = 64

// Nearest returns the name that was meant by a misspelt one; "" if there is none.
func Nearest(name string, names []string) string {
	if len(name) > longestMeant {
		return ""
	}
	best, least := "", 3
	names = slices.Sorted(slices.Values(names))
	for _, other := range names {
		d := distance(strings.ToLower(name), strings.ToLower(other))
		if d < least && 2*d <= len(name) {
			best, least = other, d
		}
	}
	return best
}

// distance is how many letters have to be inserted, removed or replaced to make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0]++
		for j := range len(b) {
			above := row[j+1]
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above+1, row[j]+1, before+cost)
			before = above
		}
	}
	return row[len(b)]
}

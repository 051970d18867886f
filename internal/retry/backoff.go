// Package retry says how long to wait after failed attempts, and which writes are worth another one: those that another
// writer overtook.
//
// The rule of delays: a delay depends on the number of failures in a row, and on chance, so that keys which failed
// together do not come back together. Those who fail keep the count, so nothing has to be forgotten here.
package retry

import (
	"math/rand/v2"
	"time"
)

// The bounds of a delay where none are given.
const (
	DefaultMin = 5 * time.Millisecond
	DefaultMax = 5 * time.Minute
)

// Backoff is exponential, with jitter, between two bounds. Make one with New.
type Backoff struct{ min, max time.Duration }

// NewBackoff takes the bounds of a delay; zero is the default. A longest below shortest is shortest.
func NewBackoff(shortest, longest time.Duration) Backoff {
	if shortest <= 0 {
		shortest = DefaultMin
	}
	if longest <= 0 {
		longest = DefaultMax
	}
	return Backoff{min: shortest, max: max(shortest, longest)}
}

// Delay returns how long to wait after so many failed attempts in a row. The ceiling is twice the minimum after the
// first and doubles with each, up to the maximum. The delay is drawn from the upper half below the ceiling, so that
// keys which failed together do not come back together, not even at the maximum. It is never below the minimum nor
// above the maximum.
func (b Backoff) Delay(failures int) time.Duration {
	ceiling := b.min
	for i := 0; i < failures && ceiling < b.max; i++ {
		ceiling *= 2
		if ceiling <= 0 { // overflow
			ceiling = b.max
		}
	}
	ceiling = min(ceiling, b.max)
	floor := max(ceiling/2, b.min)
	return floor + rand.N(ceiling-floor+1)
}

// Package backoff says how long to wait after failed attempts.
package backoff

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// manyKeys is from how many on a map is given up once it is empty, since a map never shrinks.
const manyKeys = 10_000

// The bounds of a delay where none are given.
const (
	DefaultMin = 5 * time.Millisecond
	DefaultMax = 5 * time.Minute
)

// Counter counts the failed attempts of each key and says how long to wait after
// them. Only failures count: events that arrive meanwhile do not lengthen the
// delay. It holds memory for failing keys only. Safe for concurrent use.
type Counter struct {
	min, max time.Duration

	size   atomic.Int64 // of failed: nearly always nothing fails, and then reset locks nothing
	mu     sync.Mutex
	failed map[string]int
	most   int // keys since the map was made
}

// New takes the bounds of a delay; zero is the default, 5 ms and 5 min. A
// max below min is min.
func New(shortest, longest time.Duration) *Counter {
	if shortest <= 0 {
		shortest = DefaultMin
	}
	if longest <= 0 {
		longest = DefaultMax
	}
	return &Counter{min: shortest, max: max(shortest, longest), failed: map[string]int{}}
}

// Fail counts a failed attempt and returns how many there were in a row, this one
// included.
func (b *Counter) Fail(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed[key]++
	b.most = max(b.most, len(b.failed))
	b.size.Store(int64(len(b.failed)))
	return b.failed[key]
}

// Delay returns how long to wait after that many failed attempts. The ceiling is
// 2*min for the first and doubles with each, up to max; the delay is drawn from
// the upper half below it, so keys that failed together do not come back together,
// not even at the maximum. It is never below min nor above max.
func (b *Counter) Delay(attempts int) time.Duration {
	ceiling := b.min
	for i := 0; i < attempts && ceiling < b.max; i++ {
		ceiling *= 2
		if ceiling <= 0 { // overflow
			ceiling = b.max
		}
	}
	ceiling = min(ceiling, b.max)
	floor := max(ceiling/2, b.min)
	return floor + rand.N(ceiling-floor+1)
}

// Reset forgets a key's failures: it succeeded, or its primary changed.
func (b *Counter) Reset(key string) {
	if b.size.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failed, key)
	b.size.Store(int64(len(b.failed)))
	if len(b.failed) == 0 && b.most > manyKeys {
		// Like the queue's: after an outage in which every key failed.
		b.failed, b.most = map[string]int{}, 0
	}
}

// Attempts returns how many attempts of the key failed in a row.
func (b *Counter) Attempts(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[key]
}

// Failing returns the number of keys whose last attempt failed.
func (b *Counter) Failing() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failed)
}

package controllerruntime

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultBackoffMin = 5 * time.Millisecond
	defaultBackoffMax = 5 * time.Minute
)

// backoff counts the failed attempts of each key and says how long to wait after
// them. Only failures count: events that arrive meanwhile do not lengthen the
// delay. It holds memory for failing keys only. Safe for concurrent use.
type backoff struct {
	min, max time.Duration

	size   atomic.Int64 // of failed: nearly always nothing fails, and then reset locks nothing
	mu     sync.Mutex
	failed map[string]int
	most   int // keys since the map was made
}

// newBackoff takes the bounds of a delay; zero is the default, 5 ms and 5 min. A
// max below min is min.
func newBackoff(shortest, longest time.Duration) *backoff {
	if shortest <= 0 {
		shortest = defaultBackoffMin
	}
	if longest <= 0 {
		longest = defaultBackoffMax
	}
	return &backoff{min: shortest, max: max(shortest, longest), failed: map[string]int{}}
}

// fail counts a failed attempt and returns how many there were in a row, this one
// included.
func (b *backoff) fail(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed[key]++
	b.most = max(b.most, len(b.failed))
	b.size.Store(int64(len(b.failed)))
	return b.failed[key]
}

// delay returns how long to wait after that many failed attempts. The ceiling is
// 2*min for the first and doubles with each, up to max; the delay is drawn from
// the upper half below it, so keys that failed together do not come back together,
// not even at the maximum. It is never below min nor above max.
func (b *backoff) delay(attempts int) time.Duration {
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

// reset forgets a key's failures: it succeeded, or its primary changed.
func (b *backoff) reset(key string) {
	if b.size.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failed, key)
	b.size.Store(int64(len(b.failed)))
	if len(b.failed) == 0 && b.most > manyEntries {
		// Like the queue's: after an outage in which every key failed.
		b.failed, b.most = map[string]int{}, 0
	}
}

// attempts returns how many attempts of the key failed in a row.
func (b *backoff) attempts(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[key]
}

// failing returns the number of keys whose last attempt failed.
func (b *backoff) failing() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failed)
}

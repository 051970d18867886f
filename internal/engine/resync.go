// A resync spreads the keys of a controller over an interval, so that many keys are no burst, and sweeps at its end.
//
// The rule: each key has its turn in the interval, a hash of the key, so the turn stays the same over restarts and
// replicas. Spreading knows keys and a function that makes one due; [sweeper] knows which primaries are due besides.

package engine

import (
	"context"
	"hash/fnv"
	"time"
)

// intervalSteps is into how many steps an interval is divided: keys whose turns fall into the same step come together.
const intervalSteps = 1000

// resyncOnce calls due for each key, in its turn within the interval. It returns true when the interval is over, and
// false when ctx has ended.
func resyncOnce(ctx context.Context, interval time.Duration, keys []string, due func(key string)) bool {
	start := time.Now()
	step := max(interval/intervalSteps, time.Millisecond)
	turns := turnsOf(keys, interval, step)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		elapsed := time.Since(start)
		for ; next < turns.steps() && time.Duration(next)*step <= elapsed; next++ {
			for _, key := range turns.of(next) {
				due(key)
			}
		}
		if elapsed >= interval {
			return true
		}
		for next < turns.steps() && len(turns.of(next)) == 0 {
			next++
		}
		wake := interval
		if next < turns.steps() {
			wake = time.Duration(next) * step
		}
		timer.Reset(min(wake, interval) - elapsed)
	}
}

// turns are keys in the order of the steps in which they are due.
type turns struct {
	keys []string
	ends []int // of each step's keys, where the next one's begin
}

func (t turns) steps() int { return len(t.ends) }

func (t turns) of(step int) []string {
	from := 0
	if step > 0 {
		from = t.ends[step-1]
	}
	return t.keys[from:t.ends[step]]
}

// turnsOf takes as long as there are keys: it counts those of each step, and then puts each where it belongs.
func turnsOf(keys []string, interval, step time.Duration) turns {
	t := turns{keys: make([]string, len(keys)), ends: make([]int, interval/step+1)}
	stepOf := make([]int32, len(keys))
	for i, key := range keys {
		stepOf[i] = int32(turnOf(key, interval) / step)
		t.ends[stepOf[i]]++
	}
	begin := 0
	for step, count := range t.ends {
		t.ends[step] = begin
		begin += count
	}
	for i, key := range keys {
		end := &t.ends[stepOf[i]]
		t.keys[*end] = key
		*end++
	}
	return t
}

// turnOf is the same for a key in every interval and every process. FNV alone would give keys that differ in their last
// letters only ("site-1", "site-2") nearly the same turn, so its bits are mixed as MurmurHash3 ends.
func turnOf(key string, interval time.Duration) time.Duration {
	hash := fnv.New64a()
	hash.Write([]byte(key))
	bits := hash.Sum64()
	bits = (bits ^ bits>>33) * 0xff51afd7ed558ccd
	bits = (bits ^ bits>>33) * 0xc4ceb9fe1a85ec53
	bits ^= bits >> 33
	return time.Duration(float64(bits>>11) / (1 << 53) * float64(interval))
}

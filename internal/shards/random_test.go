package shards

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

// Which random worlds are looked at: go test ./internal/shards -run Random -worlds 1000.
var (
	worlds = flag.Uint64("worlds", 24, "how many random worlds")
	from   = flag.Uint64("from", 1, "the seed of the first one")
)

// TestMembersThatComeAndGoAtRandom join, leave, die and are cut off for a while, over wires that are slow, that lose
// answers, and whose views are late: never do two work in a slot, never is one taken from a lease that is there, and in
// the end each slot has the owner that it is to have.
func TestMembersThatComeAndGoAtRandom(t *testing.T) {
	for seed := range *worlds {
		t.Run(fmt.Sprint(*from+seed), func(t *testing.T) {
			inWorld(t, *from+seed, randomly)
		})
	}
}

func randomly(w *world) {
	between := func(least, most time.Duration) time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return least + time.Duration(w.random.Int64N(int64(most-least)))
	}
	oneIn := func(n int) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.random.IntN(n) == 0
	}
	const ms = time.Millisecond
	bad := func(n *node, c *Config) {
		n.host.takes, n.host.loads, n.host.rests = between(ms, 300*ms), between(0, 500*ms)+1, 50*ms
		c.Weight = 1 + int(between(0, 3))
		n.wire.view = func() time.Duration { return between(ms, 50*ms) }
		n.wire.latency = func() time.Duration { return between(0, 10*ms) }
		n.wire.loses = func(string) bool { return oneIn(20) }
	}
	var live []*node
	names := 0
	for range 30 {
		switch n := len(live); {
		case n == 0 || n < 5 && oneIn(3):
			names++
			live = append(live, w.join(fmt.Sprint("m", names), bad))
		case oneIn(4):
			go live[0].leave() // it takes until all is handed over
			live = live[1:]
		case oneIn(4):
			live[0].wire.set(func(s *wire) { s.away = true }) // for ever: it is dead
			live = live[1:]
		case oneIn(2):
			one := live[n-1]
			one.wire.set(func(s *wire) { s.away = true })
			time.Sleep(between(ms, 2*lasts))
			one.wire.set(func(s *wire) { s.away = false })
		}
		time.Sleep(between(ms, 1500*ms))
	}
	for _, n := range live {
		n.wire.set(func(s *wire) { s.loses = nil })
	}
	if len(live) == 0 {
		live = append(live, w.join("last"))
	}
	time.Sleep(lasts + 2*time.Second + 10*time.Second) // who leaves has left, and who is dead is gone
	calm := time.Now()
	w.held(live...)
	time.Sleep(2 * time.Second)
	if longest, slot := w.longestPause(calm); longest > time.Second {
		w.Errorf("slot %d has a pause of %v when all is calm", slot, longest)
	}
}

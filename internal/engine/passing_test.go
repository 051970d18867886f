package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
)

func manual(key string) passed {
	return passed{Key: key, Ops: operation.Of(operation.Manual) | operation.ByHand}
}

// TestWhatIsPassedIsSaidUntilAllHaveHeard, or until a lease has ended, and each other member takes it once.
func TestWhatIsPassedIsSaidUntilAllHaveHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, other := &passing{lasts: time.Minute}, &passing{}
		for i := range 3 * mostPassed {
			asked.pass(manual(fmt.Sprint("key-", i)))
			asked.pass(manual(fmt.Sprint("key-", i))) // once is enough
		}
		seen := map[string]int{}
		for round := range 3 {
			now := asked.now()
			if len(now) != mostPassed {
				t.Fatalf("round %d: %d keys are said", round, len(now))
			}
			for range 2 {
				for _, one := range other.news("a", now) {
					seen[one.Key]++
				}
			}
			asked.acknowledged([]uint64{other.hears()["a"], 0})
			if again := asked.now(); len(again) != mostPassed || again[0] != now[0] {
				t.Fatal("what one has not heard is said no more")
			}
			asked.acknowledged([]uint64{other.hears()["a"]})
		}
		if len(seen) != 3*mostPassed || seen["key-7"] != 1 || asked.any() {
			t.Errorf("%d keys were heard, one of them %d times; more is said: %v", len(seen), seen["key-7"], asked.any())
		}
		asked.pass(manual("late"))
		if len(asked.now()) != 1 {
			t.Error("it is not said")
		}
		time.Sleep(time.Minute)
		if len(asked.now()) != 0 {
			t.Error("it is said for ever")
		}
	})
}

// TestWhatIsPassedFitsAMessage, however long the keys and the prefixes are, and all of it is said in the end.
func TestWhatIsPassedFitsAMessage(t *testing.T) {
	for name, of := range map[string]func(string) passed{
		"keys": manual, "prefixes": func(prefix string) passed { return passed{All: true, Prefix: prefix, Ops: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			asked := &passing{lasts: time.Minute}
			const many = 300
			for i := range many {
				asked.pass(of(fmt.Sprint(strings.Repeat("k", 2900), i)))
			}
			heard := 0
			for asked.any() {
				now := asked.now()
				data, err := json.Marshal(now)
				if err != nil || len(data) > 48<<10 || len(now) == 0 {
					t.Fatalf("%d are said, in %d bytes: %v", len(now), len(data), err)
				}
				heard += len(now)
				asked.acknowledged([]uint64{now[len(now)-1].N})
			}
			if heard != many {
				t.Errorf("%d are said", heard)
			}
		})
	}
}

// TestAFloodOfPassedKeysMakesAllDue: what waits is bounded.
func TestAFloodOfPassedKeysMakesAllDue(t *testing.T) {
	p := &passing{lasts: time.Minute}
	for i := range mostWaiting + 1 {
		p.pass(manual(fmt.Sprint("key-", i)))
	}
	now := p.now()
	if len(now) != 1 || !now[0].All || !now[0].Ops.Has(operation.Manual) || now[0].Ops&operation.ByHand == 0 {
		t.Errorf("it says %d, the first %+v", len(now), now[0])
	}
}

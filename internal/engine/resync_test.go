package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachKeyIsDueOnceInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprintf("site-%03d", i)
		}
		start := time.Now()
		due := map[string]time.Duration{}
		done := resyncOnce(t.Context(), interval, keys, func(key string) {
			if _, twice := due[key]; twice {
				t.Errorf("%s was due twice", key)
			}
			due[key] = time.Since(start)
		})
		if took := time.Since(start); !done || took != interval {
			t.Errorf("it returned %v after %v, want true after %v", done, took, interval)
		}
		for _, key := range keys {
			turn := turnOf(key, interval).Truncate(interval / intervalSteps)
			if at, was := due[key]; !was || at != turn {
				t.Errorf("%s was due after %v (%v), want %v", key, at, was, turn)
			}
		}
	})
}

func TestNoKeyIsDueAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		const interval = 10 * time.Second
		start := time.Now()
		keys := []string{"home", "shop/home", "site-1", "site-2", "site-3", "site-4", "site-5"}
		due := 0
		if resyncOnce(ctx, interval, keys, func(string) { due++ }) {
			t.Error("an interval that was cut short is over")
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it returned after %v, want 5s", took)
		}
		want := 0
		for _, key := range keys {
			if turnOf(key, interval) < 5*time.Second {
				want++
			}
		}
		if want == 0 || want == len(keys) || due != want {
			t.Errorf("%d of %d keys were due, want %d", due, len(keys), want)
		}
	})
}

func TestTurnsAreSpreadWhateverTheKeysLookLike(t *testing.T) {
	const keys, tenths = 1000, 10
	for _, format := range []string{"site-%03d", "site-%d", "%d", "shop/site-%d", "a.very.long.name.that.ends.in.%d",
		"%d-site"} {
		var inSlot [tenths]int
		var inStep [intervalSteps]int
		for i := range keys {
			turn := turnOf(fmt.Sprintf(format, i), time.Hour)
			if turn < 0 || turn >= time.Hour {
				t.Fatalf("turn %v is not within the interval", turn)
			}
			inSlot[turn*tenths/time.Hour]++
			inStep[turn*intervalSteps/time.Hour]++
		}
		if fewest, most := slices.Min(inSlot[:]), slices.Max(inSlot[:]); fewest < keys/tenths/2 ||
			most > keys/tenths*3/2 {
			t.Errorf("%s: of %d keys a tenth of the interval has between %d and %d: %v", format, keys, fewest, most,
				inSlot)
		}
		if most := slices.Max(inStep[:]); most > 10 {
			t.Errorf("%s: %d of %d keys come within the same thousandth of the interval", format, most, keys)
		}
	}
}

func TestAKeysTurnIsTheSameInEveryIntervalAndProcess(t *testing.T) {
	// The numbers are pinned, because replicas of different versions take over from each other.
	for key, want := range map[string]time.Duration{"home": 1317295 * time.Millisecond,
		"shop/home": 564753 * time.Millisecond} {
		if got := turnOf(key, time.Hour); got.Truncate(time.Millisecond) != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
}

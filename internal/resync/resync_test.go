package resync

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestTurnsAreSpreadWhateverTheKeysLookLike(t *testing.T) {
	const keys, tenths = 1000, 10
	for _, format := range []string{"site-%03d", "site-%d", "%d", "shop/site-%d", "a.very.long.name.that.ends.in.%d",
		"%d-site"} {
		var inSlot [tenths]int
		var inStep [slots]int
		for i := range keys {
			turn := turnOf(fmt.Sprintf(format, i), time.Hour)
			if turn < 0 || turn >= time.Hour {
				t.Fatalf("turn %v is not within the interval", turn)
			}
			inSlot[turn*tenths/time.Hour]++
			inStep[turn*slots/time.Hour]++
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

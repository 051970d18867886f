package retry

import (
	"math"
	"testing"
	"time"
)

func TestBackoffIsExponentialWithJitterBetweenItsBounds(t *testing.T) {
	b := NewBackoff(10*time.Millisecond, time.Second)
	for attempts := 1; attempts < 2000; attempts++ {
		ceiling := time.Second
		if attempts < 7 {
			ceiling = 10 * time.Millisecond << attempts
		}
		for range 20 {
			d := b.Delay(attempts)
			if d < ceiling/2 || d > ceiling {
				t.Fatalf("after %d failures: %v, want between %v and %v", attempts, d, ceiling/2, ceiling)
			}
		}
	}
}

func TestBackoffSpreadsKeysThatFailedTogether(t *testing.T) {
	b := NewBackoff(10*time.Millisecond, time.Second)
	for _, attempts := range []int{1, 3, 100} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			seen[b.Delay(attempts)] = true
		}
		if len(seen) < 900 {
			t.Errorf("after %d failures 1000 keys got only %d different delays", attempts, len(seen))
		}
	}
}

func TestBackoffBoundsHaveDefaultsAndHoldAtTheExtremes(t *testing.T) {
	b := NewBackoff(0, 0)
	if d := b.Delay(1); d < 5*time.Millisecond || d > 10*time.Millisecond {
		t.Errorf("first default delay is %v", d)
	}
	if d := b.Delay(1000); d < 150*time.Second || d > 5*time.Minute {
		t.Errorf("longest default delay is %v", d)
	}
	if d := NewBackoff(time.Second, time.Second).Delay(3); d != time.Second {
		t.Errorf("with equal bounds the delay is %v", d)
	}
	if d := NewBackoff(time.Second, time.Millisecond).Delay(3); d != time.Second {
		t.Errorf("with max below min the delay is %v", d)
	}
	if d := NewBackoff(time.Hour, math.MaxInt64).Delay(500); d < math.MaxInt64/2 {
		t.Errorf("near overflow the delay is %v", d)
	}
}

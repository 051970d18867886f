package controllerruntime

import (
	"fmt"
	"testing"
	"time"
)

func TestBackoffIsExponentialWithJitterBetweenItsBounds(t *testing.T) {
	b := newBackoff(10*time.Millisecond, time.Second)
	for attempts := 1; attempts < 2000; attempts++ {
		ceiling := time.Second
		if attempts < 7 {
			ceiling = 10 * time.Millisecond << attempts
		}
		for range 20 {
			d := b.delay(attempts)
			if d < ceiling/2 || d > ceiling {
				t.Fatalf("after %d failures: %v, want between %v and %v", attempts, d, ceiling/2, ceiling)
			}
		}
	}
}

func TestBackoffSpreadsKeysThatFailedTogether(t *testing.T) {
	b := newBackoff(10*time.Millisecond, time.Second)
	for _, attempts := range []int{1, 3, 100} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			seen[b.delay(attempts)] = true
		}
		if len(seen) < 900 {
			t.Errorf("after %d failures 1000 keys got only %d different delays", attempts, len(seen))
		}
	}
}

func TestBackoffBoundsHaveDefaultsAndHoldAtTheExtremes(t *testing.T) {
	b := newBackoff(0, 0)
	if d := b.delay(1); d < 5*time.Millisecond || d > 10*time.Millisecond {
		t.Errorf("first default delay is %v", d)
	}
	if d := b.delay(1000); d < 150*time.Second || d > 5*time.Minute {
		t.Errorf("longest default delay is %v", d)
	}
	if d := newBackoff(time.Second, time.Second).delay(3); d != time.Second {
		t.Errorf("with equal bounds the delay is %v", d)
	}
	if d := newBackoff(time.Second, time.Millisecond).delay(3); d != time.Second {
		t.Errorf("with max below min the delay is %v", d)
	}
	if d := newBackoff(time.Hour, never).delay(500); d < never/2 {
		t.Errorf("near overflow the delay is %v", d)
	}
}

func TestBackoffCountsFailedAttemptsUntilReset(t *testing.T) {
	b := newBackoff(0, 0)
	for want := 1; want <= 3; want++ {
		if got := b.fail("a"); got != want || b.attempts("a") != want {
			t.Fatalf("failure %d counts as %d, %d", want, got, b.attempts("a"))
		}
	}
	if b.attempts("b") != 0 {
		t.Error("one key's failures count for another")
	}
	b.reset("a")
	if b.attempts("a") != 0 || b.fail("a") != 1 {
		t.Error("reset did not forget the failures")
	}
}

func TestBackoffHoldsMemoryForFailingKeysOnly(t *testing.T) {
	b := newBackoff(0, 0)
	for i := range 1000 {
		key := fmt.Sprint(i)
		b.fail(key)
		b.attempts(key + "-fine")
		b.reset(key + "-fine")
		if i > 0 {
			b.reset(key)
		}
	}
	if b.failing() != 1 || len(b.failed) != 1 {
		t.Errorf("holds %d keys, want the one that fails", b.failing())
	}
}

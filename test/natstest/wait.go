package natstest

import (
	"testing"
	"time"
)

// waits is how long [Eventually] waits for what has to happen. It says nothing about how fast it should be.
const waits = time.Minute

// Eventually returns as soon as the condition holds, and how long that took; after a minute the test fails. In virtual
// time it looks whenever nothing works any more, at first each millisecond and then ever more rarely, so what it returns
// is up to a twentieth more than it took. A time that is a promise is asserted by sleeping until just before and just
// after it.
func Eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		waited := time.Since(began)
		if waited > waits {
			t.Fatalf("not within %v: %s", waits, what)
		}
		time.Sleep(min(max(waited/20, time.Millisecond), lookAgain()))
	}
	return time.Since(began)
}

// lookAgain is after how long Eventually looks again at the latest.
func lookAgain() time.Duration {
	if isVirtual() {
		return time.Second
	}
	return 20 * time.Millisecond
}

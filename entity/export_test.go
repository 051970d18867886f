package entity

import (
	"testing"
	"time"
)

// The times of this package that a test may change until it is over. Such a test must not be parallel, nor its
// subtests: all tests have the same times.
var (
	AttemptTimeout   = &attemptTimeout
	BrakeNoteTimeout = &brakeNoteTimeout
	SettleTimeout    = &settleTimeout
	WaitPollMax      = &waitPollMax
)

// SetTime changes one of them. Call it before a client is made.
func SetTime(t testing.TB, which *time.Duration, to time.Duration) {
	before := *which
	t.Cleanup(func() { *which = before })
	*which = to
}

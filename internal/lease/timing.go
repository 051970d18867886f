package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Timing says how replicas take turns.
type Timing struct {
	// Duration is how long the others wait for a holder that does not renew. It is whole seconds, as the record has it,
	// and at most LongestDuration.
	Duration time.Duration
	// RenewDeadline is how long a holder tries to renew before it gives up.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two tries to renew. Replicas that wait pause up to 2.2 times as long.
	RetryPeriod time.Duration
}

// jitter spreads the tries of replicas that wait, by up to this many RetryPeriods.
const jitter = 1.2

// longestRequest bounds a request about the lease. A broken connection may have swallowed it; the next one goes over a
// new connection.
const longestRequest = 2 * time.Second

// Validate says what is wrong, if anything.
func (t Timing) Validate() error {
	ordered := 0 < t.RetryPeriod && t.RetryPeriod*6/5 < t.RenewDeadline && t.RenewDeadline < t.Duration
	if !ordered || t.Duration%time.Second != 0 {
		return errors.New("want 0 < RetryPeriod, 1.2*RetryPeriod < RenewDeadline < Duration, " +
			"and Duration in whole seconds")
	}
	if t.Duration > LongestDuration {
		return fmt.Errorf("the Duration is %v, and %v at most is believed: after a crash no replica would lead for so "+
			"long", t.Duration, LongestDuration)
	}
	return nil
}

// term is how long a term lasts after the last write that succeeded was sent.
func (t Timing) term() time.Duration { return min(t.Duration, t.RenewDeadline+t.RetryPeriod) }

// request is how long one request may take.
func (t Timing) request() time.Duration {
	return max(t.RetryPeriod, min(t.RenewDeadline, longestRequest))
}

// retry is the pause between two tries to take the lease. random is in [0, 1).
func (t Timing) retry(random float64) time.Duration {
	return t.RetryPeriod + time.Duration(random*jitter*float64(t.RetryPeriod))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

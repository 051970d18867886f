package shards

import "time"

const (
	// drift is how far two clocks may run apart, in parts of the time that passes.
	drift = 0.01
	// slack is what the margin has beside that.
	slack = 200 * time.Millisecond
	// expirySlack is how late a lease that has ended may leave the store.
	expirySlack = time.Second
)

// margin is how long before the end of its lease a member stops: L2.
func margin(duration time.Duration) time.Duration {
	return time.Duration(2*drift*float64(duration)) + slack
}

// over reports whether a time has come, by the monotonic clock or by that of the wall: L4. The former stands still
// while the machine is suspended, and the latter may be set back.
func over(deadline time.Time) bool {
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

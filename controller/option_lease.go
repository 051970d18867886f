package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lease"
)

// LeaseTiming says how replicas of one controller take turns. WithLeaseTiming refuses it unless 1.2*RetryPeriod <
// RenewDeadline < Duration holds, RetryPeriod is positive, and Duration is whole seconds, an hour at most.
type LeaseTiming struct {
	// Duration is how long the others wait for a holder that does not renew.
	Duration time.Duration
	// RenewDeadline is how long a holder tries to renew before it gives up and cancels its reconciles.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two tries to take or renew the lease.
	RetryPeriod time.Duration
}

// WithLeaseTiming sets the timing of the lease. The default is client-go's for its leader election: 15 s, 10 s, 2 s.
func WithLeaseTiming(t LeaseTiming) Option {
	return func(o *engine.Options) error {
		if err := lease.Timing(t).Validate(); err != nil {
			return fmt.Errorf("WithLeaseTiming(%+v): %w", t, err)
		}
		o.Lease = lease.Timing(t)
		o.TeardownOptions = append(o.TeardownOptions, "WithLeaseTiming")
		return nil
	}
}

// WithInstance gives the id of this installation, which everything carries that the primaries own. Without it the id is
// made once and kept in the status bucket, under "_nagi.instance". Give the old id if the status bucket was lost: see
// [Controller.Run]. Run fails if the bucket keeps another id.
//
// The id differs by controller. Of two controllers over one bucket with the same id each takes for its own what the
// other makes: the brake holds what WithPrune would delete of it, and says so. Only controllers of different kinds of
// primaries may share an id, as WithHandOverFrom needs.
func WithInstance(id string) Option {
	return func(o *engine.Options) error {
		if id == "" || strings.TrimSpace(id) != id {
			return fmt.Errorf("WithInstance(%q): the id must not be empty, and have no space around it", id)
		}
		o.Instance = id
		o.TeardownOptions = append(o.TeardownOptions, "WithInstance")
		return nil
	}
}

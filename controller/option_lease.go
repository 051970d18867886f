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

// WithoutLease lets all replicas reconcile, as NeedLeaderElection=false does in controller-runtime: for what each
// process has to do by itself, such as to fill a cache, to keep a certificate or to answer for what the documents say.
// Say so only of a reconciler that may run for one key in several processes at once.
//
// Records are kept all the same, by the replica that holds the lease: the brake, the cascade, the sweep and what is
// pruned are its business alone, and records say what came of its attempts. What the others set by [SetStatus] is
// dropped. They follow it, so that no delete is lost, and none is made in haste:
//
//   - They reconcile a new document once the leader has written its record. After a crash of the leader that waits
//     until another replica has the lease.
//   - They reconcile the end of a document, with operation Delete, once the leader has torn it down, and if they have
//     reconciled it before. What the brake holds they do not see. A process that starts is told of no end that was
//     before: what it has to undo must not outlive it, or be the leader's to undo.
//
// Rates, retries, [WithOnResult] and events are each replica's own. [Controller.Explain] speaks of the replica that is
// asked, and the services API asks the one that leads. Sources behind APIs are refused. The default is that one replica
// reconciles.
func WithoutLease() Option {
	return func(o *engine.Options) error {
		o.WithoutLease = true
		o.TeardownOptions = append(o.TeardownOptions, "WithoutLease")
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

package external

import (
	"errors"
	"fmt"
	"time"
)

// Option changes one call of Reconcile.
type Option func(*settings) error

// DriftPolicy says what to do about drift: another writer has changed or deleted a resource, while what is desired
// stays as it was applied. A new wish is applied under each policy. Wishes are compared by their JSON, so a new field
// of Desired may make a new wish.
type DriftPolicy uint8

const (
	// DriftCorrect applies the desired state again.
	DriftCorrect DriftPolicy = iota
	// DriftReport leaves the resource as it is and reports it, by Result.Drift and an event. It also leaves a resource
	// that was there before anything was applied.
	DriftReport
	// DriftIgnore is DriftReport without the event.
	DriftIgnore
)

type settings struct {
	name        string
	drift       DriftPolicy
	observeOnly bool
	settle      time.Duration
	poll        time.Duration
}

const (
	defaultSettle = 10 * time.Second
	defaultPoll   = time.Second
)

// Name tells several resources of one kind and primary apart. The default is "".
func Name(name string) Option {
	return func(s *settings) error {
		s.name = name
		return nil
	}
}

// Drift sets the drift policy. The default is DriftCorrect.
func Drift(policy DriftPolicy) Option {
	return func(s *settings) error {
		if policy > DriftIgnore {
			return fmt.Errorf("Drift(%d): there is no such policy", policy)
		}
		s.drift = policy
		return nil
	}
}

// ObserveOnly never applies and never deletes: Result says what is there, and what Diff finds. When the primary is
// gone, cascade and sweep leave the resource too, and with it all resources of this kind that the primary has: List
// does not tell them apart. If others of the kind are to go, call ReconcileAbsent for those. ReconcileAbsent without
// ObserveOnly deletes, so give it to both.
func ObserveOnly() Option {
	return func(s *settings) error {
		s.observeOnly = true
		return nil
	}
}

// Settle is how long Observe may now and then not show a change, as when replicas of the API lag behind each other. The
// default is 10 s; 0 is for an API that always shows what it has answered.
//
// During that time Reconcile waits for a change that it does not see, and does not create again what it has created,
// even if it was deleted meanwhile. After that, it does. A resource that may have been created is not believed
// to be absent for Config.Timeout longer, because the call may still be under way. Without a client of the driver's
// kind that timeout is unknown, and Settle has to cover it. A new wish waits as long after a failed creation, unless
// that was Refused. Teardowns wait for the longer of this Settle, which is written down with the intent, and
// Config.Settle, which is about List.
//
// The clocks of machines need not agree: the wait for a change of another process starts when this one reads of it.
func Settle(d time.Duration) Option {
	return func(s *settings) error {
		s.settle = d
		return notNegative("Settle", d)
	}
}

// PollInterval is how often Reconcile looks at an operation under way, if the driver does not say. The default is 1 s.
func PollInterval(d time.Duration) Option {
	return func(s *settings) error {
		if d == 0 {
			return errors.New("PollInterval(0): it must be positive")
		}
		s.poll = d
		return notNegative("PollInterval", d)
	}
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s(%v): it must not be negative", name, d)
	}
	return nil
}

func applyOptions(opts []Option) (settings, error) {
	s := settings{settle: defaultSettle, poll: defaultPoll}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&s))
	}
	return s, errors.Join(errs...)
}

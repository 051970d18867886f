package external

import (
	"errors"
	"fmt"
	"time"
)

// Option changes one call of Reconcile.
type Option func(*settings) error

// DriftPolicy is what is done about a resource that somebody else has changed or deleted, while what is desired stays
// as it was applied. A wish that has changed is applied under each policy; one is known by its JSON, so a new field of Desired
// may be one.
type DriftPolicy uint8

const (
	// DriftCorrect applies again what is desired.
	DriftCorrect DriftPolicy = iota
	// DriftReport leaves the resource as it is and says so: Result.Drift, and an event. So it does with a resource that was there
	// before anything was applied.
	DriftReport
	// DriftIgnore does as DriftReport, and says nothing.
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

// Drift says what is done about drift. The default is DriftCorrect.
func Drift(policy DriftPolicy) Option {
	return func(s *settings) error {
		if policy > DriftIgnore {
			return fmt.Errorf("Drift(%d): there is no such policy", policy)
		}
		s.drift = policy
		return nil
	}
}

// ObserveOnly never applies and never deletes: Result says what is there, and what Diff finds. Cascade and sweep leave the
// resource too, when the primary is gone, and with it all of this kind that the primary has: List does not tell them apart. Where it
// has others of the kind that are to go, call ReconcileAbsent for those. Without ObserveOnly ReconcileAbsent deletes, so
// give it to both.
func ObserveOnly() Option {
	return func(s *settings) error {
		s.observeOnly = true
		return nil
	}
}

// Settle says how long Observe may not show the effect of a call, now and then, as where replicas of the API lag behind each
// other. Until then what was done and is not seen is waited for. What was created is not created again, though it was deleted
// meanwhile. What may have been created is not believed to be absent: there Config.Timeout counts too, for the call may be under way
// for that long; without a client of the driver's kind nobody knows how long that is, and Settle has to cover it. So long waits
// also a wish that changes after a creation has failed, unless that was Refused. Teardowns
// wait for the longer of this, which is written down with the intent, and Config.Settle, which says it of List. The default is
// 10 s; 0 is for an API that always shows what it has answered.
//
// The clocks of machines need not agree: what another process has begun is waited for from when this one reads of it.
func Settle(d time.Duration) Option {
	return func(s *settings) error {
		s.settle = d
		return notNegative("Settle", d)
	}
}

// PollInterval says how often what goes on is looked at, where the driver does not say. The default is 1 s.
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

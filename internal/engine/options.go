package engine

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Options are how an engine works. What each means is said at the option of package controller that sets it.
type Options struct {
	Workers          int
	ResyncInterval   time.Duration
	ReconcileTimeout time.Duration
	StuckAfter       time.Duration
	GracePeriod      time.Duration
	CacheSyncTimeout time.Duration
	BackoffMin       time.Duration
	BackoffMax       time.Duration
	DebounceQuiet    time.Duration
	DebounceMax      time.Duration
	BrakeWindow      time.Duration
	Lease            lease.Timing
	Instance         string         // the id of the installation; "" takes the one that the status bucket keeps
	FormerKinds      []string       // that the primaries had before
	Proofs           *owner.Secrets // nil: no proofs of ownership are wanted
	Triggers         []<-chan struct{}
	OnResult         func(Report)
	OnBrake          func(brake.State)
	Observers        AttemptObservers
	OnSourceError    func(source string, err error)
	ErrorPolicy      func(key string, err error, attempt int) (requeueAfter time.Duration)
	LogConstructor   func(base logr.Logger, key string, operations operation.Operations) logr.Logger
	Recorder         Recorder
	WithoutTeardown  bool
	TeardownOptions  []string // options given that mean nothing without teardown
	SweepDryRun      bool
	Predicates       source.Predicates // of the primary
	Sources          []func(*Engine) (source.Source, error)
	Clients          Clients // of the sources in NATS
	Beside           []Beside

	// What the Kumori API does differently.
	Garbage         func(ctx context.Context, sweep, skip func()) // instead of the sweep; it calls one of them
	WithoutCascade  bool
	RequireInstance bool          // what names no installation is another's
	Attach          func(*Engine) // is given the engine
}

// Beside is something that runs while the engine leads, and has no part in its reconciles.
type Beside interface {
	// Join is called once, when the engine has its sources. Its error is one of New.
	Join(e *Engine) error
	// Run is called at the start of each term. The term is not over before it has returned, which it must do soon after
	// ctx, the term's, has ended.
	Run(ctx context.Context)
}

// DefaultOptions are the options of a controller that is given none.
func DefaultOptions() Options {
	return Options{
		Workers:          1,
		ResyncInterval:   10 * time.Minute,
		StuckAfter:       time.Minute,
		GracePeriod:      30 * time.Second,
		CacheSyncTimeout: 2 * time.Minute,
		BackoffMin:       5 * time.Millisecond,
		BackoffMax:       5 * time.Minute,
		BrakeWindow:      10 * time.Minute,
		Lease: lease.Timing{
			Duration:      15 * time.Second,
			RenewDeadline: 10 * time.Second,
			RetryPeriod:   2 * time.Second,
		},
	}
}

// Reconcile makes the world match one primary. The key is due again after requeueAfter, if that is positive.
type Reconcile func(
	ctx context.Context, key string, operations operation.Operations,
) (requeueAfter time.Duration, err error)

// Report is what is told of an attempt.
type Report struct {
	Key        string
	Operations operation.Operations
	Attempt    int
	Duration   time.Duration
	Err        error
	NextDue    time.Time // zero if only an event makes the key due
	CutShort   bool      // the error is no failure: the term was over
}

// Causes of a reconcile's context ending.
var (
	ErrReconcileTimeout = errors.New("reconcile timeout reached")
	ErrStopped          = errors.New("controller stopped and its grace period is over")
	ErrLeaseLost        = errors.New("lease lost to another replica, or not renewed in time")
)

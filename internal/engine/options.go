package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/util/workqueue"
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
	Rate             queue.Rate                         // of reconciles; the zero value has none
	Group            func(key string) string            // names the groups that take turns; nil: there are none
	RateLimiter      workqueue.TypedRateLimiter[string] // of attempts that failed, instead of the backoff; nil: none
	BrakeWindow      time.Duration
	Lease            lease.Timing
	WithoutLease     bool           // all replicas reconcile; the one that leads keeps the records
	Shards           int            // into how many slots the keys are divided that replicas share; 0: one works
	Member           string         // the name of this replica among them, the same over restarts
	MemberWeight     int            // how many slots it is to have, in proportion to those of others
	SlotCaches       bool           // caches have what belongs to the slots of this replica alone
	Instance         string         // the id of the installation; "" takes the one that the status bucket keeps
	FormerKinds      []string       // that the primaries had before
	Proofs           *owner.Secrets // nil: no proofs of ownership are wanted
	Triggers         []<-chan struct{}
	OnResult         func(Report)
	OnBrake          func(brake.State)
	Observers        AttemptObservers
	OnSourceError    func(source string, err error)
	ErrorPolicy      func(key string, err error, attempt int) Requeue
	LogConstructor   func(base logr.Logger, key string, operations operation.Operations) logr.Logger
	Recorder         Recorder
	WithoutTeardown  bool
	TeardownOptions  []string // options given that mean nothing without teardown
	SweepDryRun      bool
	Predicates       source.Predicates // of the primary
	EventFilters     source.Predicates // of all sources that have predicates
	Sources          []func(*Engine) (source.Source, error)
	Clients          Clients  // of the sources in NATS
	Listens          []string // the names of sources of keys
	Beside           []Beside

	// What the Kumori API does differently.
	Garbage         func(ctx context.Context, sweep, skip func()) // instead of the sweep; it calls one of them
	WithoutCascade  bool
	Plans           bool          // the reconciler writes through the helpers alone
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

// Reconcile makes the world match one primary.
type Reconcile func(ctx context.Context, key string, operations operation.Operations) (Requeue, error)

// Requeue says when a key is due again by itself, and how urgent it is then.
type Requeue = lifecycle.Requeue

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

// Filtered are the predicates of a source after those of all sources.
func (e *Engine) Filtered(predicates source.Predicates) source.Predicates {
	return slices.Concat(e.opts.EventFilters, predicates)
}

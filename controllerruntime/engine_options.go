package controllerruntime

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
)

// engineOptions are how an engine works. What each means is said at the option of package controller that sets it.
type engineOptions struct {
	workers          int
	resyncInterval   time.Duration
	reconcileTimeout time.Duration
	gracePeriod      time.Duration
	cacheSyncTimeout time.Duration
	backoffMin       time.Duration
	backoffMax       time.Duration
	debounceQuiet    time.Duration
	debounceMax      time.Duration
	brakeWindow      time.Duration
	lease            lease.Timing
	triggers         []<-chan struct{}
	onResult         func(attemptReport)
	onBrake          func(brake.State)
	onSourceError    func(source string, err error)
	errorPolicy      func(key string, err error, attempt int) (requeueAfter time.Duration)
	logConstructor   func(base logr.Logger, key string, operations operation.Operations) logr.Logger
	recorder         eventRecorder
	withoutTeardown  bool
	teardownOptions  []string // options given that mean nothing without teardown
	sweepDryRun      bool
	predicates       source.Predicates // of the primary
	sources          []func(*engine) (source.Source, error)

	// What the Kumori API does differently.
	garbage        func(sweep func()) // instead of the sweep
	withoutCascade bool
	attach         func(*engine) // is given the engine
}

func defaultEngineOptions() engineOptions {
	return engineOptions{
		workers:          1,
		resyncInterval:   10 * time.Minute,
		gracePeriod:      30 * time.Second,
		cacheSyncTimeout: 2 * time.Minute,
		backoffMin:       5 * time.Millisecond,
		backoffMax:       5 * time.Minute,
		brakeWindow:      10 * time.Minute,
		lease:            lease.Timing{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
	}
}

// reconcileFunc makes the world match one primary. The key is due again after requeueAfter, if that is positive.
type reconcileFunc func(ctx context.Context, key string, operations operation.Operations) (requeueAfter time.Duration, err error)

// eventRecorder takes events about primaries and about the controller. It must not block.
type eventRecorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// The types of events. They are those of k8s.io/api/core/v1, which takes long to compile and is not needed otherwise.
const (
	eventNormal  = "Normal"
	eventWarning = "Warning"
)

// attemptReport is what is told of an attempt.
type attemptReport struct {
	Key        string
	Operations operation.Operations
	Attempt    int
	Duration   time.Duration
	Err        error
	NextDue    time.Time // zero if only an event makes the key due
}

// Causes of a reconcile's context ending.
var (
	errReconcileTimeout = errors.New("reconcile timeout reached")
	errStopped          = errors.New("controller stopped and its grace period is over")
	errLeaseLost        = errors.New("lease lost to another replica, or not renewed in time")
)

type terminalError struct{ err error }

func (e *terminalError) Error() string { return "terminal error: " + e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// terminalErrorOf marks an error that no retry can mend; nil for nil.
func terminalErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

func isTerminal(err error) bool {
	var terminal *terminalError
	return errors.As(err, &terminal)
}

package controller

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/client-go/tools/cache"
)

// Option configures a Controller. An option that cannot be honoured makes New fail.
type Option func(*engine.Options) error

// SourceOption configures one source of events.
type SourceOption func(*sourceOptions) error

type sourceOptions struct {
	predicates        source.Predicates
	deleter           Deleter
	name              string
	watchErrorHandler cache.WatchErrorHandlerWithContext
}

// applyOptions tells of everything that is wrong at once.
func applyOptions(opts []Option) (engine.Options, error) {
	o := engine.DefaultOptions()
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("option %d is nil: leave it away", i+1))
			continue
		}
		errs = append(errs, opt(&o))
	}
	if o.WithoutTeardown && len(o.TeardownOptions) > 0 {
		errs = append(errs, fmt.Errorf("%s would do nothing with WithoutTeardown(), which has no lease, no brake, no cascade and no sweep: take one of them away",
			strings.Join(o.TeardownOptions, ", ")))
	}
	return o, errors.Join(errs...)
}

func applySourceOptions(opts []SourceOption) (sourceOptions, error) {
	var o sourceOptions
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("source option %d is nil: leave it away", i+1))
			continue
		}
		errs = append(errs, opt(&o))
	}
	return o, errors.Join(errs...)
}

// WithWorkers sets how many keys are reconciled at once. The default is 1.
func WithWorkers(n int) Option {
	return func(o *engine.Options) error {
		if n < 1 {
			return fmt.Errorf("WithWorkers(%d): at least one worker is needed", n)
		}
		o.Workers = n
		return nil
	}
}

// WithResyncInterval sets how often each primary is reconciled without a reason, and how often the sweep runs. The
// keys' turns are spread over the interval by a hash of the key. The default is 10 minutes; 0 means never.
func WithResyncInterval(d time.Duration) Option {
	return func(o *engine.Options) error { return notNegative("WithResyncInterval", d, &o.ResyncInterval) }
}

// WithReconcileTimeout ends the context of a reconcile that takes longer, with the cause ErrReconcileTimeout. The
// default, 0, is no timeout.
func WithReconcileTimeout(d time.Duration) Option {
	return func(o *engine.Options) error { return notNegative("WithReconcileTimeout", d, &o.ReconcileTimeout) }
}

// WithGracePeriod sets how long running reconciles may go on, with a live context, after Run's context ended. The
// default is 30 s; a negative value waits without limit.
func WithGracePeriod(d time.Duration) Option {
	return func(o *engine.Options) error {
		o.GracePeriod = d
		return nil
	}
}

// WithCacheSyncTimeout sets how long Run waits for the sources to sync before it fails. The default is 2 minutes.
func WithCacheSyncTimeout(d time.Duration) Option {
	return func(o *engine.Options) error {
		if d <= 0 {
			return fmt.Errorf("WithCacheSyncTimeout(%v): the timeout must be positive", d)
		}
		o.CacheSyncTimeout = d
		return nil
	}
}

// WithBackoff sets the delays between failed attempts of a key: min doubles with each, with jitter, up to max. The
// defaults are 5 ms and 5 minutes.
func WithBackoff(min, max time.Duration) Option {
	return func(o *engine.Options) error {
		if min <= 0 || max < min {
			return fmt.Errorf("WithBackoff(%v, %v): want 0 < min <= max", min, max)
		}
		o.BackoffMin, o.BackoffMax = min, max
		return nil
	}
}

// WithDebounce postpones a key that changes again within quiet of its last change, but never for longer than max after
// the first. The default, zero, postpones nothing.
func WithDebounce(quiet, max time.Duration) Option {
	return func(o *engine.Options) error {
		if quiet < 0 || max < quiet || quiet == 0 && max > 0 {
			return fmt.Errorf("WithDebounce(%v, %v): want 0 < quiet <= max, or both 0", quiet, max)
		}
		o.DebounceQuiet, o.DebounceMax = quiet, max
		return nil
	}
}

// WithReconcileAllOn enqueues every primary with OperationManual each time something is received from trigger. It may
// be given several times; a channel that is closed is dropped.
func WithReconcileAllOn(trigger <-chan struct{}) Option {
	return func(o *engine.Options) error {
		if trigger == nil {
			return errors.New("WithReconcileAllOn(nil): a nil channel never triggers")
		}
		o.Triggers = append(o.Triggers, trigger)
		return nil
	}
}

// WithOnResult calls f after each attempt, in order per key, before the key can run again. f must return quickly; a
// panic in it is logged.
func WithOnResult(f func(ReconcileResult)) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithOnResult(nil): a function is needed; leave the option away instead")
		}
		o.OnResult = func(a engine.Report) { f(ReconcileResult(a)) }
		return nil
	}
}

// WithErrorPolicy lets f choose when a key that failed is due again. The zero Result means the default backoff. It
// is not asked about terminal errors. If it panics, the default holds.
func WithErrorPolicy(f func(key string, err error, attempt int) Result) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithErrorPolicy(nil): a function is needed; leave the option away instead")
		}
		o.ErrorPolicy = func(key string, err error, attempt int) time.Duration { return f(key, err, attempt).RequeueAfter }
		return nil
	}
}

// WithoutTeardown is for a primary without a status bucket: no records, no lease, no owed deletes, no cascade and no
// sweep. A delete is reconciled if this process sees it; one that happens while it is down is lost.
func WithoutTeardown() Option {
	return func(o *engine.Options) error {
		o.WithoutTeardown = true
		return nil
	}
}

// WithSweepDryRun makes the sweep report what it would delete, in the log and in Stats, and delete nothing.
func WithSweepDryRun() Option {
	return func(o *engine.Options) error {
		o.SweepDryRun = true
		o.TeardownOptions = append(o.TeardownOptions, "WithSweepDryRun")
		return nil
	}
}

// WithBrakeWindow sets the sliding window over which the brake counts inferred deletes. The default is 10 minutes.
func WithBrakeWindow(d time.Duration) Option {
	return func(o *engine.Options) error {
		if d <= 0 {
			return fmt.Errorf("WithBrakeWindow(%v): the window must be positive", d)
		}
		o.BrakeWindow = d
		o.TeardownOptions = append(o.TeardownOptions, "WithBrakeWindow")
		return nil
	}
}

// WithOnBrake calls f when the brake engages and when it is released. f must return quickly; a panic in it is logged.
func WithOnBrake(f func(BrakeState)) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithOnBrake(nil): a function is needed; leave the option away instead")
		}
		o.OnBrake = func(state brake.State) { f(BrakeState(state)) }
		o.TeardownOptions = append(o.TeardownOptions, "WithOnBrake")
		return nil
	}
}

// WithOnSourceError calls f when a source degrades, with the reason, and with nil when it works again. f must return
// quickly; a panic in it is logged.
func WithOnSourceError(f func(source string, err error)) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithOnSourceError(nil): a function is needed; leave the option away instead")
		}
		o.OnSourceError = f
		return nil
	}
}

// WithLogConstructor builds the logger that a reconcile's context carries from base, which is the logger of Run's context
// with controller and kind. The default adds key, operations and an id. If f panics the logger has the key only.
func WithLogConstructor(f func(base logr.Logger, req Request) logr.Logger) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithLogConstructor(nil): a function is needed; leave the option away instead")
		}
		o.LogConstructor = func(base logr.Logger, key string, operations Operations) logr.Logger {
			return f(base, Request{Key: key, Operations: operations})
		}
		return nil
	}
}

// WithPrimary gives the primary's source.Source options, such as predicates. Predicates do not hold back deletes that are
// owed, nor changes of the annotations that the runtime reads, and a key they filtered is still reconciled by resync.
func WithPrimary(opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("WithPrimary: %w", err)
		}
		if so.deleter != nil {
			return errors.New("WithPrimary: WithDeleter is for Kubernetes sources; the runtime never deletes primaries")
		}
		if err := so.onlyForKube(); err != nil {
			return fmt.Errorf("WithPrimary: %w", err)
		}
		o.Predicates = append(o.Predicates, so.predicates...)
		return nil
	}
}

// WithPredicate filters the events of a source. Several: all must hold.
func WithPredicate(p Predicate) SourceOption {
	return func(o *sourceOptions) error {
		if guard.IsNil(p) {
			return errors.New("WithPredicate(nil): a predicate is needed; leave the option away instead")
		}
		o.predicates = append(o.predicates, p)
		return nil
	}
}

// WithDeleter says how objects of a Kubernetes source are deleted by cascade and sweep. Without it they are left, and
// nothing waits for them to go.
func WithDeleter(d Deleter) SourceOption {
	return func(o *sourceOptions) error {
		if guard.IsNil(d) {
			return errors.New("WithDeleter(nil): a deleter is needed; leave the option away instead")
		}
		o.deleter = d
		return nil
	}
}

func notNegative(name string, d time.Duration, into *time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s(%v): the duration must not be negative", name, d)
	}
	*into = d
	return nil
}

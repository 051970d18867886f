package controller

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Option configures a Controller. New fails on an option that cannot be honoured; none is ignored.
type Option func(*engine.Options) error

// SourceOption configures one source of events: Owns, Watches, OwnsKube, WatchesKube or WithPrimary.
type SourceOption func(*sourceOptions) error

type sourceOptions struct {
	predicates        source.Predicates
	deleter           Deleter
	prune             bool
	open              bool // see WithOwnersInOtherNamespaces
	optional          bool // see WithOptional
	name              string
	watchErrorHandler cache.WatchErrorHandlerWithContext
}

// applyOptions returns all that is wrong in one error.
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
		errs = append(errs, fmt.Errorf("%s would do nothing with WithoutTeardown(), "+
			"which has no lease, no brake, no cascade and no sweep: take one of them away",
			strings.Join(o.TeardownOptions, ", ")))
	}
	errs = append(errs, checkShards(&o))
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

// WithWorkers sets how many keys are reconciled at once. The default is 1; less is an error.
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

// WithReconcileTimeout cancels the context of a reconcile that takes longer, with the cause ErrReconcileTimeout. The
// default, 0, is no timeout.
func WithReconcileTimeout(d time.Duration) Option {
	return func(o *engine.Options) error { return notNegative("WithReconcileTimeout", d, &o.ReconcileTimeout) }
}

// WithStuckAfter sets after what time a reconcile that has not returned is stuck: Stats().Degraded says so, and, once,
// the log, with the stack of its goroutine, and an event on the primary. A callback, as that of WithOnResult or OnWrite
// of entity.Config, that has not returned by then is degraded, too. The default is a minute; 0 means never.
func WithStuckAfter(d time.Duration) Option {
	return func(o *engine.Options) error { return notNegative("WithStuckAfter", d, &o.StuckAfter) }
}

// WithGracePeriod sets how long running reconciles may go on, with a live context, after Run's context has ended. The
// default is 30 s. 0 cancels them at once; a negative value waits without limit.
func WithGracePeriod(d time.Duration) Option {
	return func(o *engine.Options) error {
		o.GracePeriod = d
		return nil
	}
}

// WithCacheSyncTimeout sets how long Run waits for all sources to sync, optional ones apart (WithOptional), before it
// fails. The default is 2 minutes. It must be positive.
func WithCacheSyncTimeout(d time.Duration) Option {
	return func(o *engine.Options) error {
		if d <= 0 {
			return fmt.Errorf("WithCacheSyncTimeout(%v): the timeout must be positive", d)
		}
		o.CacheSyncTimeout = d
		return nil
	}
}

// WithBackoff sets the delay after a failed attempt of a key. It starts at min, doubles with each failure of that key,
// has jitter, and grows to max. A success or a new revision starts it at min again. The defaults are 5 ms and 5
// minutes.
func WithBackoff(min, max time.Duration) Option {
	return func(o *engine.Options) error {
		if min <= 0 || max < min {
			return fmt.Errorf("WithBackoff(%v, %v): want 0 < min <= max", min, max)
		}
		o.BackoffMin, o.BackoffMax = min, max
		return nil
	}
}

// WithDebounce postpones a key until it has not changed for quiet, but never for longer than max after its first
// change. The default, 0 for both, postpones nothing.
func WithDebounce(quiet, max time.Duration) Option {
	return func(o *engine.Options) error {
		if quiet < 0 || max < quiet || quiet == 0 && max > 0 {
			return fmt.Errorf("WithDebounce(%v, %v): want 0 < quiet <= max, or both 0", quiet, max)
		}
		o.DebounceQuiet, o.DebounceMax = quiet, max
		return nil
	}
}

// WithReconcileAllOn enqueues all primaries with OperationManual each time something is received from trigger. It may
// be given several times. A channel that is closed is dropped.
func WithReconcileAllOn(trigger <-chan struct{}) Option {
	return func(o *engine.Options) error {
		if trigger == nil {
			return errors.New("WithReconcileAllOn(nil): a nil channel never triggers")
		}
		o.Triggers = append(o.Triggers, trigger)
		return nil
	}
}

// WithOnResult calls f after each attempt, before its key can run again. So calls for one key are in order; calls for
// different keys come concurrently. f must return quickly, since its worker waits for it. A panic in f is logged.
func WithOnResult(f func(ReconcileResult)) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithOnResult(nil): a function is needed; leave the option away instead")
		}
		o.OnResult = func(a engine.Report) { f(ReconcileResult(a)) }
		return nil
	}
}

// WithErrorPolicy lets f choose when a failed key is due again. attempt counts from 1. The zero Result means the
// default backoff; a Priority in it holds with the backoff too. f is not asked about terminal errors. It is called
// concurrently for different keys. If f panics, the default backoff holds.
func WithErrorPolicy(f func(key string, err error, attempt int) Result) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithErrorPolicy(nil): a function is needed; leave the option away instead")
		}
		o.ErrorPolicy = func(key string, err error, attempt int) engine.Requeue {
			return f(key, err, attempt).requeue()
		}
		return nil
	}
}

// WithoutTeardown runs a controller without records, for a primary that has no status bucket. There is no lease, no
// owed delete, no cascade, no sweep and no brake. A delete that this process sees is reconciled; a delete while the
// process is down is lost. Options about what is missing make New fail.
func WithoutTeardown() Option {
	return func(o *engine.Options) error {
		o.WithoutTeardown = true
		return nil
	}
}

// WithSweepDryRun makes the sweep delete nothing, and report in the log and in Stats what it would delete.
func WithSweepDryRun() Option {
	return func(o *engine.Options) error {
		o.SweepDryRun = true
		o.TeardownOptions = append(o.TeardownOptions, "WithSweepDryRun")
		return nil
	}
}

// WithBrakeWindow sets the sliding window in which the brake counts inferred deletes. The default is 10 minutes. It
// must be positive.
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

// WithOnBrake calls f when the brake engages and when it is released. f must return quickly. A panic in f is logged.
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

// WithOnSourceError calls f with the reason when a source degrades, and with nil when it works again, or when the term
// has ended in which it was found, and the next leader reports it. f must return quickly. A panic in f is logged.
func WithOnSourceError(f func(source string, err error)) Option {
	return func(o *engine.Options) error {
		if f == nil {
			return errors.New("WithOnSourceError(nil): a function is needed; leave the option away instead")
		}
		o.OnSourceError = f
		return nil
	}
}

// WithLogConstructor lets f build the logger that a reconcile's context carries. base is the logger of Run's context,
// with controller and kind. The default adds key, operations and an id. If f panics, the logger has the key only.
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

// WithPredicate filters the events of a source. Given several times, all predicates must let an event pass.
func WithPredicate(p Predicate) SourceOption {
	return func(o *sourceOptions) error {
		if isNilPredicate(p) {
			return errors.New("WithPredicate(nil): a predicate is needed; leave the option away instead")
		}
		o.predicates = append(o.predicates, p)
		return nil
	}
}

// WithEventFilter filters the events of all sources: of the primary, as WithPrimary says, and of what is owned or
// watched in NATS and in Kubernetes. It comes before the predicates of a source. What is behind an API has no events to
// filter. Given several times, all predicates must let an event pass.
func WithEventFilter(p Predicate) Option {
	return func(o *engine.Options) error {
		if isNilPredicate(p) {
			return errors.New("WithEventFilter(nil): a predicate is needed; leave the option away instead")
		}
		if err := fit(reflect.TypeFor[metav1.Object](), source.Predicates{p}); err != nil {
			return fmt.Errorf("WithEventFilter: %w: give it to the source that has them, by WithPredicate", err)
		}
		o.EventFilters = append(o.EventFilters, p)
		return nil
	}
}

// WithDeleter says how cascade and sweep delete the objects of a Kubernetes source. Without it these objects are left,
// and nothing waits for them to go. Package kube makes deleters.
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

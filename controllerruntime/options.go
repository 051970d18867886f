package controllerruntime

import (
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
)

// WithOptions gives the runtime options of package controller, before Run: WithLeaseTiming, WithInstance, WithBackoff,
// WithErrorPolicy, WithReconcileTimeout, WithCacheSyncTimeout, WithDebounce, WithBrakeWindow, WithOnBrake,
// WithSweepDryRun, WithOnResult, WithOnSourceError, WithLogConstructor, WithReconcileAllOn, WithPrimary,
// WithoutTeardown, WithSelfOwnership, WithObserver, WithFairness, WithRate, WithRateLimiter. It may be called several
// times; where two options say the same thing the later one holds. An observer such as that of package metrics is told
// of the controller when Run begins.
//
// With WithGracePeriod Run waits that long for SyncHandler after the stop, and not without limit; then the context that
// [ControllerRuntime.Context] gave ends, and what does not return is left behind, with an error.
//
// What this API says elsewhere is refused: the workers are Run's threadiness, the resync interval and the sources are
// arguments of NewControllerRuntime, events go to the recorder behind Event, and the runtime deletes nothing that would
// want a proof of its owner. The error says what is wrong with the options. Run returns it too, and the runtime stays
// unusable, so that an error that is not looked at is not lost. After Run has begun WithOptions returns an error and
// changes nothing.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) WithOptions(opts ...controller.Option) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.Load() {
		return fmt.Errorf("controller %q: WithOptions after Run has begun changes nothing: call it before Run", r.name)
	}
	for i, opt := range opts {
		if opt == nil {
			r.opts = append(r.opts, nil) // which New reports
			continue
		}
		r.opts = append(r.opts, allowed(i+1, opt))
	}
	return r.build()
}

// allowed is an option that must leave alone what this API says elsewhere.
func allowed(number int, opt controller.Option) controller.Option {
	return func(o *engine.Options) error {
		with := *o
		with.Workers, with.ResyncInterval, with.Recorder, with.Proofs = unset, unset, nil, nil
		if err := opt(&with); err != nil {
			return err
		}
		instead := ""
		switch {
		case with.Workers != unset:
			instead = "WithWorkers: say it as the threadiness of Run"
		case with.ResyncInterval != unset:
			instead = "WithResyncInterval: say it as the resyncInterval of NewControllerRuntime"
		case with.Recorder != nil:
			instead = "WithEventRecorder: the runtime has a recorder of its own; call Event"
		case with.Proofs != nil:
			instead = "WithOwnerProof: leave it away, since the runtime deletes nothing by itself"
		case with.SlotCaches:
			instead = "WithSlotCaches: handlers and GarbageSecondaries of this API want all that is owned"
		case with.Plans:
			instead = "WithPlan: SyncHandler has no context, so it would write in a plan, too"
		case len(with.Sources) != len(o.Sources):
			instead = "a source: give its client or informer to NewControllerRuntime"
		}
		if instead != "" {
			return fmt.Errorf("option %d of WithOptions is %s", number, instead)
		}
		with.Workers, with.ResyncInterval = o.Workers, o.ResyncInterval
		with.Recorder, with.Proofs = o.Recorder, o.Proofs
		*o = with
		return nil
	}
}

// unset is no value of a number of workers or of an interval.
const unset = -1

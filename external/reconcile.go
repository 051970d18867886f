package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is how a resource is after Reconcile.
type State string

// The states of a resource.
const (
	StateSynced  State = "Synced"  // as desired
	StatePending State = "Pending" // something goes on, or its result is not seen yet
	StateDrifted State = "Drifted" // not as desired, and left so by the drift policy or ObserveOnly
	StateAbsent  State = "Absent"  // not there; where it is desired, left so by ObserveOnly
	StateUnknown State = "Unknown" // beside an error
)

// Result is what Reconcile came to.
type Result[Observed any] struct {
	State State
	// Observed is the resource as it was last seen; nil if it was not, or is absent.
	Observed *Observed
	// Did is what was done, and is over; "" for nothing.
	Did Action
	// Drift is what differs and is left so. It is empty for a resource that is missing.
	Drift []Change
	// RequeueAfter is when to look again, positive where State is StatePending. The engine does so even where the reconciler
	// does not pass it on, and does not take the primary for reconciled before.
	RequeueAfter time.Duration
}

// Reconcile makes one external resource of the reconciled primary be as desired, in the context of a reconcile.
//
// It first settles what an earlier reconcile left open, then observes, and if something differs writes down the intent with
// a new token, applies, and observes again. Only what was observed is reported as done: what goes on is StatePending. An
// error leaves the intent as it is, and the next call goes on from there; one that IsUnavailable makes the engine wait for
// the API.
func Reconcile[Desired, Observed any](ctx context.Context, driver Driver[Desired, Observed], desired Desired, opts ...Option) (Result[Observed], error) {
	document, err := json.Marshal(desired)
	if err != nil {
		return Result[Observed]{State: StateUnknown}, fmt.Errorf("encode what is desired of %s: %w", driver.Kind(), err)
	}
	return reconcile(ctx, driver, &wish[Desired]{desired, document, digestOf(document)}, opts)
}

// ReconcileAbsent makes sure that the resource is gone, and settles what was left open. For the reconcile of a primary that
// is gone, and of one that no longer wants the resource. Until the State is StateAbsent the engine keeps the primary's
// teardown owed.
func ReconcileAbsent[Desired, Observed any](ctx context.Context, driver Driver[Desired, Observed], opts ...Option) (Result[Observed], error) {
	return reconcile(ctx, driver, nil, opts)
}

// wish is what is desired; a nil wish is that there be nothing.
type wish[Desired any] struct {
	value    Desired
	document []byte
	digest   string
}

func digestOf(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:16])
}

// run is one call of Reconcile.
type run[Desired, Observed any] struct {
	settings
	driver   Driver[Desired, Observed]
	desired  *wish[Desired]
	runtime  Runtime
	gate     Gate // nil: none
	resource string
	entry    Entry // as the store has it
}

var errNoRuntime = errors.New("the context has no Runtime: call it with the context of a reconcile, or see WithRuntime")

func reconcile[Desired, Observed any](ctx context.Context, driver Driver[Desired, Observed], desired *wish[Desired], opts []Option) (Result[Observed], error) {
	unknown := Result[Observed]{State: StateUnknown}
	kind := driver.Kind()
	runtime, ok := runtimeOf(ctx)
	if !ok {
		return unknown, fmt.Errorf("reconcile external %s: %w", kind, errNoRuntime)
	}
	settings, err := applyOptions(opts)
	if err != nil {
		return unknown, fmt.Errorf("reconcile external %s: %w", kind, err)
	}
	r := &run[Desired, Observed]{settings: settings, driver: driver, desired: desired, runtime: runtime, gate: runtime.Gate(kind), resource: kind}
	if settings.name != "" {
		r.resource += "/" + settings.name
	}
	result, err := r.reconcile(ctx)
	away := err != nil && ctx.Err() == nil && errors.Is(err, errOfAPI) && IsUnavailable(err)
	if away {
		err = UnavailableOf(kind, err)
	}
	if r.gate != nil && (away || err == nil) {
		r.gate.Report(err)
	}
	if err != nil {
		result.State = StateUnknown
		return result, fmt.Errorf("reconcile external %s of %s %q: %w", r.resource, runtime.Owner().Kind, runtime.Owner().Key, err)
	}
	if result.State == StatePending && result.RequeueAfter <= 0 {
		result.RequeueAfter = r.poll
	}
	return result, nil
}

// errOfAPI tells the errors of the driver from those of the store, which may come from a network too.
var errOfAPI = errors.New("API")

type apiError struct{ err error }

func (e *apiError) Error() string   { return e.err.Error() }
func (e *apiError) Unwrap() []error { return []error{errOfAPI, e.err} }

func (r *run[Desired, Observed]) reconcile(ctx context.Context) (Result[Observed], error) {
	entry, err := r.runtime.Store().Load(ctx, r.resource)
	if err != nil {
		return Result[Observed]{}, fmt.Errorf("read what is open: %w", err)
	}
	r.entry = entry
	var before Result[Observed]
	if entry.Intent != nil {
		settled, result, err := r.settleIntent(ctx)
		if !settled || err != nil {
			return result, err
		}
		before = result
	}
	seen, err := r.observe(ctx)
	if err != nil {
		return before, err
	}
	result, err := r.converge(ctx, seen)
	if result.Did == "" {
		result.Did = before.Did
	}
	return result, err
}

// converge makes what is seen be as desired. No intent is open.
func (r *run[Desired, Observed]) converge(ctx context.Context, seen Observation[Observed]) (Result[Observed], error) {
	switch {
	case seen.presence == busy:
		return r.pending(nil, "a change that somebody else has begun", 0), nil
	case r.desired == nil && seen.presence == absent:
		return Result[Observed]{State: StateAbsent}, r.save(ctx, Entry{})
	case r.desired == nil && r.observeOnly:
		return Result[Observed]{State: StateDrifted, Observed: &seen.observed}, r.save(ctx, Entry{})
	case r.desired == nil:
		return r.remove(ctx, seen, r.newIntent(ActionDelete))
	case seen.presence == absent && r.leaves():
		return r.drifted(nil, nil), nil
	case seen.presence == absent && r.observeOnly:
		return Result[Observed]{State: StateAbsent}, nil
	case seen.presence == absent:
		return r.apply(ctx, seen, r.newIntent(ActionCreate), nil)
	}
	changes := r.driver.Diff(r.desired.value, seen.observed)
	switch {
	case len(changes) == 0:
		return Result[Observed]{State: StateSynced, Observed: &seen.observed}, r.save(ctx, r.applied(r.desired.digest))
	case r.observeOnly:
		return Result[Observed]{State: StateDrifted, Observed: &seen.observed, Drift: changes}, nil
	case r.leaves():
		return r.drifted(&seen.observed, changes), nil
	}
	return r.apply(ctx, seen, r.newIntent(ActionUpdate), changes)
}

// leaves tells whether what differs is drift that the policy leaves as it is.
func (r *run[Desired, Observed]) leaves() bool {
	return r.drift != DriftCorrect && !r.observeOnly && r.entry.Applied == r.desired.digest
}

func (r *run[Desired, Observed]) drifted(observed *Observed, changes []Change) Result[Observed] {
	if r.drift == DriftReport {
		what := "it is missing"
		if observed != nil {
			what = describe(changes)
		}
		r.runtime.Drifted(r.resource + " has drifted and is left so: " + what)
	}
	return Result[Observed]{State: StateDrifted, Observed: observed, Drift: changes}
}

// applied is the entry once an intent with this digest is over.
func (r *run[Desired, Observed]) applied(digest string) Entry {
	if r.drift == DriftCorrect {
		return Entry{} // nobody asks
	}
	return Entry{Applied: digest}
}

func (r *run[Desired, Observed]) pending(observed *Observed, what string, after time.Duration) Result[Observed] {
	if after <= 0 {
		after = r.poll
	}
	r.runtime.Pending(r.resource+": "+what, after)
	return Result[Observed]{State: StatePending, Observed: observed, RequeueAfter: after}
}

func (r *run[Desired, Observed]) save(ctx context.Context, entry Entry) error {
	if r.entry.Same(entry) {
		return nil
	}
	if err := r.runtime.Store().Save(ctx, r.resource, r.entry, entry); err != nil {
		return fmt.Errorf("write down the intent: %w", err)
	}
	r.entry = entry
	return nil
}

package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

// State is the state of a resource after Reconcile.
type State string

// The states of a resource.
const (
	StateSynced  State = "Synced"  // as desired
	StatePending State = "Pending" // something goes on, or its result is not seen yet
	StateDrifted State = "Drifted" // not as desired, and left so by the drift policy or ObserveOnly
	StateAbsent  State = "Absent"  // not there; where it is desired, left so by ObserveOnly
	StateUnknown State = "Unknown" // together with an error
)

// Result says how the resource is after Reconcile, and what Reconcile did.
type Result[Observed any] struct {
	State State
	// Observed is the resource as it was last seen; nil if it was not seen, or is absent.
	Observed *Observed
	// Did is the change that was made and is over; "" for none.
	Did Action
	// Drift has the differences that are left. It is empty for a resource that is missing.
	Drift []Change
	// RequeueAfter is when to look again, positive if State is StatePending. The engine does so even if the reconciler
	// does not pass it on, and does not count the primary as reconciled before that.
	RequeueAfter time.Duration
}

// Reconcile makes one external resource of the primary be as desired. Call it with the context of a reconcile.
//
// It first settles what an earlier reconcile left open, then observes. If something differs, it writes down the intent
// with a new token, applies, and observes again. It reports as done only what it observed: a change that goes on is
// StatePending. An error leaves the intent as it is, and the next call goes on from there. An error that IsUnavailable
// makes the engine wait for the API.
//
// The intent holds Desired as JSON, in plain text, in the status bucket. After a crash Desired is read from there, so
// Reconcile refuses one that is not the same after encoding and decoding. An unchanged wish must also encode the same
// each time: with the time of day in it, each reconcile has a new wish.
//
// Fields of Desired with the tag `nagi:"secret"`, at any depth and in what interfaces hold, are left out of the intent
// and of its digest. Of changes only the fields are named in errors and events, also where Observed has such fields.
// Better still, let Desired name the secret, and the driver look it up. A wish that differs from the last one in secret
// fields only is no new wish: Diff has to see the difference, and under DriftReport and DriftIgnore it is left as
// drift. Errors of the driver are told as they are.
func Reconcile[Desired, Observed any](
	ctx context.Context, driver Driver[Desired, Observed], desired Desired, opts ...Option,
) (Result[Observed], error) {
	document, err := json.Marshal(desired)
	if err != nil {
		return Result[Observed]{State: StateUnknown}, fmt.Errorf("encode what is desired of %s: %w", driver.Kind(), err)
	}
	hidden, err := jsonshape.SecretsOfValue(desired)
	if err == nil {
		err = survives(desired, document)
	}
	if _, ok := errors.AsType[lostError](err); err != nil && hidden != nil && !ok {
		err = errors.New("it is not the same after it was written as JSON and read; " +
			"the values are not told, because it has secret fields")
	}
	if err == nil {
		document, err = hidden.Drop(document)
	}
	if err != nil {
		return Result[Observed]{State: StateUnknown},
			fmt.Errorf("write down what is desired of %s: %w", driver.Kind(), err)
	}
	return reconcile(ctx, driver, &wish[Desired]{desired, document, digestOf(document), hidden != nil}, opts)
}

// ReconcileAbsent makes sure that the resource is gone, and settles what was left open. Call it in the reconcile of a
// primary that is gone, or that no longer wants the resource. Until the State is StateAbsent the engine keeps the
// primary's teardown owed. With ObserveOnly nothing is deleted, and nothing kept owed.
func ReconcileAbsent[Desired, Observed any](
	ctx context.Context, driver Driver[Desired, Observed], opts ...Option,
) (Result[Observed], error) {
	return reconcile(ctx, driver, nil, opts)
}

// wish is the desired state; a nil wish is that the resource be absent.
type wish[Desired any] struct {
	value    Desired
	document []byte // without secret fields
	digest   string // of the document
	secret   bool   // it has secret fields
}

// wished returns the wish that an intent fulfils. If it is still the current wish, that is the reconciler's own value.
func (r *run[Desired, Observed]) wished(intent *Intent) (desired Desired, err error) {
	if r.desired != nil && r.desired.digest == intent.Digest {
		return r.desired.value, nil
	}
	if err := jsonshape.AnyCoder().Unmarshal(intent.Desired, &desired); err != nil {
		return desired, fmt.Errorf("decode what was desired: %w", err)
	}
	return desired, nil
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
	secret   bool  // Desired has secret fields, which intents lack
	quiet    bool  // changes are told without their values: Desired or Observed has secret fields
}

var errNoRuntime = errors.New("the context has no Runtime: call it with the context of a reconcile, or see WithRuntime")

func reconcile[Desired, Observed any](
	ctx context.Context, driver Driver[Desired, Observed], desired *wish[Desired], opts []Option,
) (Result[Observed], error) {
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
	r := &run[Desired, Observed]{
		settings: settings, driver: driver, desired: desired,
		runtime: runtime, gate: runtime.Gate(kind), resource: kind,
	}
	hidden, err := jsonshape.SecretsOf(reflect.TypeFor[Desired]())
	if err != nil {
		return unknown, fmt.Errorf("reconcile external %s: %w", kind, err)
	}
	r.secret = hidden != nil || desired != nil && desired.secret
	seen, err := jsonshape.SecretsOf(reflect.TypeFor[Observed]())
	if err != nil {
		return unknown, fmt.Errorf("reconcile external %s: %w", kind, err)
	}
	r.quiet = r.secret || seen != nil
	if settings.name != "" {
		r.resource += "/" + settings.name
	}
	if kind == "" || strings.Contains(kind, "/") {
		return unknown, fmt.Errorf("reconcile external %q: the driver's kind must be one, without a slash", kind)
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
		return result, fmt.Errorf("reconcile external %s of %s %q: %w",
			r.resource, runtime.Owner().Kind, runtime.Owner().Key, err)
	}
	if result.State == StatePending && result.RequeueAfter <= 0 {
		result.RequeueAfter = r.poll
	}
	return result, nil
}

// errOfAPI marks the errors of the driver, because those of the store may come from a network too.
var errOfAPI = errors.New("API")

type apiError struct{ err error }

func (e *apiError) Error() string   { return e.err.Error() }
func (e *apiError) Unwrap() []error { return []error{errOfAPI, e.err} }

func ofAPI(err error) error {
	if err == nil {
		return nil
	}
	return &apiError{err: err}
}

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

// converge brings what is seen to what is desired. No intent is open.
func (r *run[Desired, Observed]) converge(ctx context.Context, seen Observation[Observed]) (Result[Observed], error) {
	switch {
	case seen.presence == busy:
		return r.pending(nil, "a change that somebody else has begun", 0), nil
	case r.observeOnly:
		return r.look(ctx, seen)
	case seen.presence == absent && r.createdLately():
		// A replica of the API has shown it and another does not: it is there.
		return r.pending(nil, "what was created to be seen again", 0), nil
	case r.desired == nil && seen.presence == absent:
		return Result[Observed]{State: StateAbsent}, r.save(ctx, Entry{})
	case r.desired == nil:
		return r.remove(ctx, seen, r.newIntent(ActionDelete))
	case seen.presence == absent && r.leaves(seen):
		return r.drifted(ctx, nil, nil)
	case seen.presence == absent:
		return r.apply(ctx, seen, r.newIntent(ActionCreate), nil)
	}
	changes := r.driver.Diff(r.desired.value, seen.observed)
	switch {
	case len(changes) == 0:
		return Result[Observed]{State: StateSynced, Observed: &seen.observed}, r.save(ctx, r.applied(r.desired.digest))
	case r.leaves(seen):
		return r.drifted(ctx, &seen.observed, changes)
	}
	return r.apply(ctx, seen, r.newIntent(ActionUpdate), changes)
}

// look is the reconcile of ObserveOnly. It only remembers that the resource is not to be deleted for the primary.
func (r *run[Desired, Observed]) look(ctx context.Context, seen Observation[Observed]) (Result[Observed], error) {
	err := r.save(ctx, Entry{Applied: r.entry.Applied, ObserveOnly: true})
	if seen.presence == absent {
		return Result[Observed]{State: StateAbsent}, err
	}
	result := Result[Observed]{State: StateDrifted, Observed: &seen.observed}
	if r.desired != nil {
		if result.Drift = r.driver.Diff(r.desired.value, seen.observed); len(result.Drift) == 0 {
			result.State = StateSynced
		}
	}
	return result, err
}

// leaves reports whether the policy leaves a difference as it is. So it does with a resource that was there before
// anything was applied: its difference may be drift.
func (r *run[Desired, Observed]) leaves(seen Observation[Observed]) bool {
	if r.drift == DriftCorrect {
		return false
	}
	return r.entry.Applied == r.desired.digest || r.entry.Applied == "" && seen.presence == exists
}

// drifted leaves a resource as it is. It remembers the current wish, to tell a later one from drift.
func (r *run[Desired, Observed]) drifted(
	ctx context.Context, observed *Observed, changes []Change,
) (Result[Observed], error) {
	if r.drift == DriftReport {
		what := "it is missing"
		if observed != nil {
			what = r.describe(changes)
		}
		r.runtime.Drifted(r.resource + " has drifted and is left so: " + what)
	}
	return Result[Observed]{State: StateDrifted, Observed: observed, Drift: changes},
		r.save(ctx, r.applied(r.desired.digest))
}

// applied is the entry after the wish with this digest was fulfilled, or its drift was left as it is.
func (r *run[Desired, Observed]) applied(digest string) Entry {
	return Entry{Applied: digest, Created: r.entry.Created}
}

// over is the entry after an intent has ended: its goal is reached, or its resource exists and differs.
func (r *run[Desired, Observed]) over(intent *Intent) Entry {
	entry := r.applied(intent.Digest)
	if intent.Action == ActionCreate && r.settle > 0 {
		entry.Created = &Creation{At: time.Now().UTC(), Settle: r.settle}
	}
	return entry
}

func (r *run[Desired, Observed]) pending(observed *Observed, what string, after time.Duration) Result[Observed] {
	if after <= 0 {
		after = r.poll
	}
	r.runtime.Pending(r.resource+": "+what, after)
	return Result[Observed]{State: StatePending, Observed: observed, RequeueAfter: after}
}

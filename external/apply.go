package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// newIntent returns an intent to do action, with a new token.
func (r *run[Desired, Observed]) newIntent(action Action) *Intent {
	intent := &Intent{Token: string(uuid.NewUUID()), Action: action}
	if action != ActionDelete {
		intent.Digest, intent.Desired = r.desired.digest, r.desired.document
	}
	return intent
}

// begin writes the intent down before the API is called.
func (r *run[Desired, Observed]) begin(ctx context.Context, intent *Intent) error {
	begun := *intent
	begun.Tried, begun.Answered, begun.Operation = time.Now().UTC(), false, ""
	begun.Settle = r.settle + r.timeout()
	return r.save(ctx, r.with(&begun))
}

// timeout is how long a call may be under way; 0 without a gate, when only the context of the reconcile bounds it.
func (r *run[Desired, Observed]) timeout() time.Duration {
	if r.gate == nil {
		return 0
	}
	return r.gate.Timeout()
}

// with returns the entry with another intent, or none.
func (r *run[Desired, Observed]) with(intent *Intent) Entry {
	return Entry{Intent: intent, Applied: r.entry.Applied, Created: r.entry.Created}
}

// amend changes the open intent.
func (r *run[Desired, Observed]) amend(ctx context.Context, change func(*Intent)) error {
	intent := *r.entry.Intent
	change(&intent)
	return r.keep(ctx, r.with(&intent))
}

// drop forgets the open intent, which is over and has not reached its goal.
func (r *run[Desired, Observed]) drop(ctx context.Context) error {
	return r.keep(ctx, r.with(nil))
}

func (r *run[Desired, Observed]) save(ctx context.Context, entry Entry) error {
	if r.entry.Same(entry) {
		return nil
	}
	if dryrun.Of(ctx) != nil {
		r.entry = entry
		return nil
	}
	if err := r.runtime.Store().Save(ctx, r.resource, r.entry, entry); err != nil {
		return fmt.Errorf("write down the intent: %w", err)
	}
	entry.Seen, entry.Since = time.Now(), r.entry.Since
	r.entry = entry
	return nil
}

// keepFor is how long after the end of the reconcile's context an answer of the API may still be written down.
const keepFor = 5 * time.Second

// keep is save for an answer of the API. A lost lease, a stop or a reconcile that takes too long ends the context,
// often while the API works, and its answer may be the only trace of what goes on there. A new leader is not
// overwritten: the store refuses if it has changed anything.
func (r *run[Desired, Observed]) keep(ctx context.Context, entry Entry) error {
	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		defer end()
		patience := time.NewTimer(keepFor)
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-kept.Done():
		}
	})()
	return r.save(kept, entry)
}

// apply applies what the intent says. The intent is new, or is tried again.
func (r *run[Desired, Observed]) apply(
	ctx context.Context, seen Observation[Observed], intent *Intent, changes []Change,
) (Result[Observed], error) {
	request := ApplyRequest[Desired, Observed]{Target: r.target(intent.Token), Changes: changes}
	if seen.presence == exists {
		request.Observed = &seen.observed
	}
	var err error
	if request.Desired, err = r.wished(intent); err != nil {
		return Result[Observed]{}, err
	}
	if plan := dryrun.Of(ctx); plan != nil {
		return r.planned(plan, intent, request.Observed, changes), nil
	}
	return r.try(ctx, intent, func(ctx context.Context) (Outcome, error) { return r.driver.Apply(ctx, request) })
}

// remove deletes the resource.
func (r *run[Desired, Observed]) remove(
	ctx context.Context, seen Observation[Observed], intent *Intent,
) (Result[Observed], error) {
	request := DeleteRequest[Observed]{Target: r.target(intent.Token), Observed: &seen.observed}
	if plan := dryrun.Of(ctx); plan != nil {
		return r.planned(plan, intent, &seen.observed, nil), nil
	}
	return r.try(ctx, intent, func(ctx context.Context) (Outcome, error) { return r.driver.Delete(ctx, request) })
}

// try writes the intent down, calls the API, and observes the result.
func (r *run[Desired, Observed]) try(
	ctx context.Context, intent *Intent, do func(context.Context) (Outcome, error),
) (Result[Observed], error) {
	// Wait for the turn first: then the call is under way for at most its Timeout after the time that is written down.
	limited, leave, err := r.enter(WithCall(ctx, callOf(intent.Action)))
	if err != nil {
		return Result[Observed]{}, fmt.Errorf("%s: %w", intent.Action, err)
	}
	if err := r.begin(ctx, intent); err != nil {
		leave()
		return Result[Observed]{}, err
	}
	outcome, err := func() (Outcome, error) { defer leave(); return do(limited) }()
	err = ofAPI(err)
	if errors.Is(err, ErrRefused) {
		return Result[Observed]{}, errors.Join(fmt.Errorf("%s: %w", intent.Action, err), r.drop(ctx))
	}
	if err != nil {
		return Result[Observed]{}, fmt.Errorf("%s: %w", intent.Action, err)
	}
	if outcome.operation != "" {
		if _, ok := r.driver.(Poller); !ok {
			return Result[Observed]{}, fmt.Errorf("%s: the driver has started operation %q and has no Poll "+
				"(see Poller)", intent.Action, outcome.operation)
		}
		err := r.amend(ctx, func(i *Intent) { i.Operation = outcome.operation })
		return r.goesOn(outcome.operation, outcome.after), err
	}
	seen, err := r.observe(ctx)
	if err != nil {
		// Keep what is known: it was done.
		return Result[Observed]{}, errors.Join(err, r.amend(ctx, r.answered))
	}
	settled, result, err := r.conclude(ctx, seen, true)
	if settled || err != nil {
		return result, err
	}
	return result, r.amend(ctx, r.answered)
}

func (r *run[Desired, Observed]) answered(i *Intent) {
	i.Answered, i.Operation, i.Tried, i.Settle = true, "", time.Now().UTC(), r.settle
}

func (r *run[Desired, Observed]) goesOn(operation string, after time.Duration) Result[Observed] {
	return r.pending(nil, fmt.Sprintf("operation %q (%s)", operation, r.entry.Intent.Action), after)
}

// conclude ends the open intent if its result is visible. settled is false while the API may not show it yet.
func (r *run[Desired, Observed]) conclude(
	ctx context.Context, seen Observation[Observed], done bool,
) (settled bool, result Result[Observed], err error) {
	intent := r.entry.Intent
	switch {
	case seen.presence == busy:
		return false, r.pending(nil, "a change that goes on", 0), nil
	case intent.Action == ActionDelete && seen.presence == absent && (done || intent.Answered || !r.createdLately()):
		if told, ok := r.runtime.(interface{ Deleted(resource string) }); ok {
			told.Deleted(r.resource)
		}
		return true, Result[Observed]{State: StateAbsent, Did: ActionDelete}, r.keep(ctx, Entry{})
	case intent.Action != ActionDelete && seen.presence == exists && r.knows(intent):
		desired, err := r.wished(intent)
		if err != nil {
			return false, Result[Observed]{}, err
		}
		if len(r.driver.Diff(desired, seen.observed)) == 0 {
			result := Result[Observed]{State: StateSynced, Observed: &seen.observed, Did: intent.Action}
			return true, result, r.keep(ctx, r.over(intent))
		}
	}
	if !done {
		return false, Result[Observed]{}, nil
	}
	return false, r.pending(nil, fmt.Sprintf("the result of %s to be seen", intent.Action), 0), nil
}

// knows reports whether all that an intent wants is known. An older wish was written down without its secret fields, so
// what is seen cannot be compared with it: settling then goes on as if it differed.
func (r *run[Desired, Observed]) knows(intent *Intent) bool {
	return !r.secret || r.desired != nil && r.desired.digest == intent.Digest
}

// observe asks the driver. It returns an error if the driver does not know.
func (r *run[Desired, Observed]) observe(ctx context.Context) (seen Observation[Observed], err error) {
	token := ""
	if r.entry.Intent != nil {
		token = r.entry.Intent.Token
	}
	err = r.call(WithCall(ctx, "Observe"), func(ctx context.Context) (err error) {
		seen, err = r.driver.Observe(ctx, r.target(token))
		return err
	})
	if err != nil {
		return seen, fmt.Errorf("observe: %w", err)
	}
	if seen.presence == unknown {
		return seen, fmt.Errorf("observe: %w: %s", ErrUnknown, seen.why)
	}
	return seen, nil
}

// ErrUnknown is why Reconcile does nothing about a resource: the driver could not tell whether it exists.
var ErrUnknown = errors.New("whether the resource exists is unknown")

func (r *run[Desired, Observed]) target(token string) Target {
	return Target{Owner: r.runtime.Owner(), Name: r.name, Token: token}
}

// call waits for its turn and calls the API.
func (r *run[Desired, Observed]) call(ctx context.Context, f func(context.Context) error) error {
	limited, leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return ofAPI(f(limited))
}

// callOf is the method of a driver that does an action.
func callOf(action Action) string {
	if action == ActionDelete {
		return "Delete"
	}
	return "Apply"
}

func (r *run[Desired, Observed]) enter(
	ctx context.Context,
) (limited context.Context, leave context.CancelFunc, err error) {
	if r.gate == nil {
		return ctx, func() {}, nil
	}
	return r.gate.Enter(ctx)
}

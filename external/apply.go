package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// newIntent is what is to be done next, with a token of its own.
func (r *run[Desired, Observed]) newIntent(action Action) *Intent {
	intent := &Intent{Token: string(uuid.NewUUID()), Action: action}
	if action != ActionDelete {
		intent.Digest, intent.Desired = r.desired.digest, r.desired.document
	}
	return intent
}

// begin writes the intent down, before the API is called.
func (r *run[Desired, Observed]) begin(ctx context.Context, intent *Intent) error {
	begun := *intent
	begun.Tried, begun.Answered, begun.Operation = time.Now().UTC(), false, ""
	return r.save(ctx, Entry{Intent: &begun, Applied: r.entry.Applied})
}

// amend changes what is known of the open intent.
func (r *run[Desired, Observed]) amend(ctx context.Context, change func(*Intent)) error {
	intent := *r.entry.Intent
	change(&intent)
	return r.save(ctx, Entry{Intent: &intent, Applied: r.entry.Applied})
}

// drop forgets the open intent: it is over, and has not come to what it was for.
func (r *run[Desired, Observed]) drop(ctx context.Context) error {
	return r.save(ctx, Entry{Applied: r.entry.Applied})
}

// apply does what the intent says, which is a new one or one that is tried again.
func (r *run[Desired, Observed]) apply(ctx context.Context, seen Observation[Observed], intent *Intent, changes []Change) (Result[Observed], error) {
	request := ApplyRequest[Desired, Observed]{Target: r.target(intent.Token), Changes: changes}
	if seen.presence == exists {
		request.Observed = &seen.observed
	}
	if err := json.Unmarshal(intent.Desired, &request.Desired); err != nil {
		return Result[Observed]{}, fmt.Errorf("decode what was desired: %w", err)
	}
	return r.try(ctx, intent, func(ctx context.Context) (Outcome, error) { return r.driver.Apply(ctx, request) })
}

// remove deletes the resource.
func (r *run[Desired, Observed]) remove(ctx context.Context, seen Observation[Observed], intent *Intent) (Result[Observed], error) {
	request := DeleteRequest[Observed]{Target: r.target(intent.Token), Observed: &seen.observed}
	return r.try(ctx, intent, func(ctx context.Context) (Outcome, error) { return r.driver.Delete(ctx, request) })
}

// try writes the intent down, calls the API, and looks what came of it.
func (r *run[Desired, Observed]) try(ctx context.Context, intent *Intent, do func(context.Context) (Outcome, error)) (Result[Observed], error) {
	if err := r.begin(ctx, intent); err != nil {
		return Result[Observed]{}, err
	}
	var outcome Outcome
	err := r.call(ctx, func(ctx context.Context) (err error) {
		outcome, err = do(ctx)
		return err
	})
	if errors.Is(err, ErrRefused) {
		return Result[Observed]{}, errors.Join(fmt.Errorf("%s: %w", intent.Action, err), r.drop(ctx))
	}
	if err != nil {
		return Result[Observed]{}, fmt.Errorf("%s: %w", intent.Action, err)
	}
	if outcome.operation != "" {
		if _, ok := r.driver.(Poller); !ok {
			return Result[Observed]{}, fmt.Errorf("%s: the driver has started operation %q and has no Poll (see Poller)", intent.Action, outcome.operation)
		}
		err := r.amend(ctx, func(i *Intent) { i.Operation = outcome.operation })
		return r.goesOn(outcome.operation, outcome.after), err
	}
	seen, err := r.observe(ctx)
	if err != nil {
		// What is known is kept: that it was done.
		return Result[Observed]{}, errors.Join(err, r.amend(ctx, answered))
	}
	settled, result, err := r.conclude(ctx, seen, true)
	if settled || err != nil {
		return result, err
	}
	return result, r.amend(ctx, answered)
}

func answered(i *Intent) { i.Answered, i.Operation, i.Tried = true, "", time.Now().UTC() }

func (r *run[Desired, Observed]) goesOn(operation string, after time.Duration) Result[Observed] {
	return r.pending(nil, fmt.Sprintf("operation %q (%s)", operation, r.entry.Intent.Action), after)
}

// conclude ends the open intent if its result is to be seen. It is not settled while the API may not show it yet.
func (r *run[Desired, Observed]) conclude(ctx context.Context, seen Observation[Observed], done bool) (settled bool, result Result[Observed], err error) {
	intent := r.entry.Intent
	switch {
	case seen.presence == busy:
		return false, r.pending(nil, "a change that goes on", 0), nil
	case intent.Action == ActionDelete && seen.presence == absent:
		return true, Result[Observed]{State: StateAbsent, Did: ActionDelete}, r.save(ctx, Entry{})
	case intent.Action != ActionDelete && seen.presence == exists:
		var desired Desired
		if err := json.Unmarshal(intent.Desired, &desired); err != nil {
			return false, Result[Observed]{}, fmt.Errorf("decode what was desired: %w", err)
		}
		if len(r.driver.Diff(desired, seen.observed)) == 0 {
			result := Result[Observed]{State: StateSynced, Observed: &seen.observed, Did: intent.Action}
			return true, result, r.save(ctx, r.applied(intent.Digest))
		}
	}
	if !done {
		return false, Result[Observed]{}, nil
	}
	return false, r.pending(nil, fmt.Sprintf("the result of %s to be seen", intent.Action), 0), nil
}

// observe asks the driver. What it does not know is an error.
func (r *run[Desired, Observed]) observe(ctx context.Context) (seen Observation[Observed], err error) {
	token := ""
	if r.entry.Intent != nil {
		token = r.entry.Intent.Token
	}
	err = r.call(ctx, func(ctx context.Context) (err error) {
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

// ErrUnknown is why nothing is done about a resource of which the driver could not tell whether it is there.
var ErrUnknown = errors.New("whether the resource exists is unknown")

func (r *run[Desired, Observed]) target(token string) Target {
	return Target{Owner: r.runtime.Owner(), Name: r.name, Token: token}
}

// call calls the API when its turn has come.
func (r *run[Desired, Observed]) call(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.gate != nil {
		var err error
		if limited, cancel, err = r.gate.Enter(ctx); err != nil {
			return err
		}
	}
	defer cancel()
	if err := f(limited); err != nil {
		return &apiError{err: err}
	}
	return nil
}

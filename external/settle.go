package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// settleIntent settles an intent that an earlier reconcile left open: after a crash, an error, or while an operation
// goes on. Until that is settled nothing else is done: settled is false, and Reconcile returns result.
func (r *run[Desired, Observed]) settleIntent(ctx context.Context) (settled bool, result Result[Observed], err error) {
	if r.entry.Intent.Operation != "" {
		over, result, err := r.pollOperation(ctx)
		if !over || err != nil {
			return false, result, err
		}
	}
	if r.observeOnly {
		// The policy was changed. What was begun is not continued.
		return true, Result[Observed]{}, r.drop(ctx)
	}
	seen, err := r.observe(ctx)
	if err != nil {
		return false, Result[Observed]{}, err
	}
	if seen.presence == busy {
		return r.adopt(ctx, seen)
	}
	settled, result, err = r.conclude(ctx, seen, false)
	if settled || err != nil {
		// Start again: the wish may be another one by now.
		return settled, result, err
	}
	switch r.entry.Intent.Action {
	case ActionCreate:
		return r.settleCreate(ctx, seen)
	case ActionUpdate:
		return r.settleUpdate(ctx, seen)
	default:
		return r.settleDelete(ctx, seen)
	}
}

// pollOperation asks how the intent's operation is getting on.
func (r *run[Desired, Observed]) pollOperation(ctx context.Context) (over bool, result Result[Observed], err error) {
	intent := r.entry.Intent
	poller, ok := r.driver.(Poller)
	if !ok {
		return false, result, fmt.Errorf("operation %q is under way, and the driver has no Poll (see Poller)",
			intent.Operation)
	}
	var progress Progress
	err = r.call(WithCall(ctx, "Poll"), func(ctx context.Context) (err error) {
		progress, err = poller.Poll(ctx, r.target(intent.Token), intent.Operation)
		return err
	})
	switch {
	case errors.Is(err, ErrNoOperation):
		// It is over, and Observe shows its result.
	case err != nil:
		return false, result, fmt.Errorf("poll operation %q: %w", intent.Operation, err)
	case !progress.Over:
		return false, r.goesOn(intent.Operation, progress.After), nil
	case progress.Err != nil:
		// The API is done with this token: another try is another intent.
		return false, result, errors.Join(
			fmt.Errorf("operation %q (%s) failed: %w", intent.Operation, intent.Action, progress.Err), r.drop(ctx))
	}
	return true, result, r.amend(ctx, r.answered)
}

// adopt takes up an operation that was begun before a crash, and that only the API knew.
func (r *run[Desired, Observed]) adopt(
	ctx context.Context, seen Observation[Observed],
) (bool, Result[Observed], error) {
	if _, ok := r.driver.(Poller); !ok || seen.operation == "" {
		return false, r.pending(nil, "a change that goes on", 0), nil
	}
	err := r.amend(ctx, func(i *Intent) { i.Operation = seen.operation })
	return false, r.goesOn(seen.operation, 0), err
}

// fresh reports whether the API may not show the result of the intent yet, or the last creation.
func (r *run[Desired, Observed]) fresh() bool {
	return time.Now().Before(r.entry.Settled(r.timeout(), r.settle))
}

// createdLately reports whether the API may not show the last creation yet.
func (r *run[Desired, Observed]) createdLately() bool {
	creation := r.entry
	creation.Intent = nil
	return time.Now().Before(creation.Settled(r.timeout(), r.settle))
}

// settleCreate settles a creation whose resource is absent, or exists in another shape.
func (r *run[Desired, Observed]) settleCreate(
	ctx context.Context, seen Observation[Observed],
) (bool, Result[Observed], error) {
	intent := r.entry.Intent
	switch {
	case seen.presence == exists && intent.Answered && r.fresh():
		return false, r.pending(&seen.observed, "the result of create to be seen", 0), nil
	case seen.presence == exists:
		return true, Result[Observed]{}, r.keep(ctx, r.over(intent)) // created; what differs is an update
	case intent.Answered && r.fresh():
		return false, r.pending(nil, "what was created to be seen", 0), nil
	case intent.Answered:
		return true, Result[Observed]{}, r.drop(ctx) // it was there, and was deleted
	case r.desired != nil && r.desired.digest == intent.Digest:
		result, err := r.apply(ctx, seen, intent, nil)
		return false, result, err
	case r.fresh():
		// The call may still be carried out: if we forgot it now, its resource would stay for ever, or be a second one.
		return false, r.pending(nil, "what may have been created to be seen", 0), nil
	}
	return true, Result[Observed]{}, r.drop(ctx) // nothing came of it, and it is no longer wanted
}

// settleUpdate settles an update whose resource is absent, or not as the update was to make it.
func (r *run[Desired, Observed]) settleUpdate(
	ctx context.Context, seen Observation[Observed],
) (bool, Result[Observed], error) {
	intent := r.entry.Intent
	switch {
	case seen.presence == absent:
		return true, Result[Observed]{}, r.drop(ctx) // deleted meanwhile
	case r.desired == nil || r.desired.digest != intent.Digest:
		return true, Result[Observed]{}, r.drop(ctx) // it is no longer wanted, and an update cannot make two
	case intent.Answered && r.fresh():
		return false, r.pending(&seen.observed, "the result of update to be seen", 0), nil
	case intent.Answered:
		changes := r.driver.Diff(r.desired.value, seen.observed)
		return false, Result[Observed]{}, errors.Join(
			fmt.Errorf("update was done %v ago, and it still differs: %s",
				time.Since(intent.Tried).Round(time.Second), r.describe(changes)), r.drop(ctx))
	}
	result, err := r.apply(ctx, seen, intent, r.driver.Diff(r.desired.value, seen.observed))
	return false, result, err
}

// settleDelete settles a delete whose resource is there, or was created lately.
func (r *run[Desired, Observed]) settleDelete(
	ctx context.Context, seen Observation[Observed],
) (bool, Result[Observed], error) {
	intent := r.entry.Intent
	switch {
	case seen.presence == absent:
		return false, r.pending(nil, "what was created to be seen again", 0), nil
	case intent.Answered && r.fresh():
		return false, r.pending(&seen.observed, "what was deleted to be gone", 0), nil
	case intent.Answered:
		return false, Result[Observed]{}, errors.Join(
			fmt.Errorf("delete was done %v ago, and it is still there",
				time.Since(intent.Tried).Round(time.Second)), r.drop(ctx))
	case r.desired != nil:
		// It is wanted again. If a late delete still removes it, it is created again.
		return true, Result[Observed]{}, r.drop(ctx)
	}
	result, err := r.remove(ctx, seen, intent)
	return false, result, err
}

// describe names changes in errors and events: with their values, unless there are secret fields.
func (r *run[Desired, Observed]) describe(changes []Change) string {
	parts := make([]string, len(changes))
	for i, change := range changes {
		if parts[i] = change.String(); r.quiet {
			parts[i] = change.Field
		}
	}
	return strings.Join(parts, ", ")
}

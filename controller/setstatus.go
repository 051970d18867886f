package controller

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/source"
)

// SetStatus gives the primary that is being reconciled the status of obj, which is the primary as this reconcile has
// read it. The status is written when Reconcile returns, with or without an error, in one write with what came of it:
// readers see both at once, and there is one write less than with the client's UpdateStatus. Nothing is written if
// nothing changed.
//
// What is set last counts, and a crash before the write, or a stop or lost lease that cuts a reconcile short, leaves
// the status as it was; use UpdateStatus for what must be stored before Reconcile goes on, and not both for one object.
// obj is not told its next status revision: read it anew in each reconcile. If somebody else has updated the status
// since obj was read, theirs stays, the outcome is Retrying, and the primary is reconciled again, with a backoff of its
// own until a status is written; so it is where the record is too large with the status. Where nothing is recorded,
// which is WithoutTeardown and the reconcile of a delete, SetStatus writes at once, and returns the errors of
// UpdateStatus.
//
// It is an error outside a reconcile and after it, and for another object than the reconciled primary. IsInvalid and
// IsRequestEntityTooLarge are said of a status that no record can have. It may be called concurrently. The handlers of
// the Kumori API have no context to call it with; they use UpdateStatus.
func SetStatus(ctx context.Context, obj entity.IEntity) error {
	r, ok := current.Of(ctx)
	if !ok {
		return fmt.Errorf("set the status of %q: this is no reconcile's context; use the client's UpdateStatus",
			source.ObjectKey(obj))
	}
	return r.SetStatus(ctx, obj)
}

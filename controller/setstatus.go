package controller

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/source"
)

// SetStatus sets the status of the primary that is being reconciled to obj's. obj is the primary as this reconcile has
// read it. The status is written when Reconcile returns, with or without an error, together with the outcome. So
// readers see both at once, and it costs one write less than the client's UpdateStatus. Nothing is written if nothing
// changed.
//
// Of several calls the last counts. The status stays as it was if the process crashes before the write, or if a stop or
// a lost lease cuts the reconcile short. Use UpdateStatus for what must be stored before Reconcile goes on, and do not
// use both for one object. SetStatus does not change obj's resourceVersion or status revision: read obj anew in each
// reconcile.
//
// If another writer has updated the status since obj was read, theirs stays. The outcome is then Retrying, and the
// primary is reconciled again, with a backoff of its own until a status is written. The same happens if the record is
// too large with the status. Where nothing is recorded, which is WithoutTeardown and the reconcile of a delete,
// SetStatus writes at once and returns the errors of UpdateStatus.
//
// SetStatus returns an error outside a reconcile, after its end, and for another object than the reconciled primary.
// The error is IsInvalid or IsRequestEntityTooLarge for a status that no record can hold. It may be called
// concurrently. A SyncHandler of the Kumori API calls it with ControllerRuntime.Context; its other handlers have no
// such context, and use UpdateStatus.
func SetStatus(ctx context.Context, obj entity.IEntity) error {
	r, ok := reconcilectx.Of(ctx)
	if !ok {
		return fmt.Errorf("set the status of %q: this is no reconcile's context; use the client's UpdateStatus, "+
			"or in a unit test a Runner of package test/reconciletest", source.ObjectKey(obj))
	}
	return r.SetStatus(ctx, obj)
}

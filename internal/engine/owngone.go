package engine

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ownGone is the error of a reconciler that takes it for a failure that its primary is gone. It stays a failure. The
// text helps, because such a teardown would never be over.
type ownGone struct{ error }

func (e *ownGone) Error() string {
	return "the reconciler returned the NotFound error of its own primary. A document that is gone is no failure: " +
		"return nil, so that the teardown ends. The error was: " + e.error.Error()
}

func (e *ownGone) Unwrap() error { return e.error }

// orOwnGone explains the error of a teardown's reconcile if it is that of the primary itself.
func (e *Engine) orOwnGone(key string, ops operation.Operations, err error) error {
	if err == nil || !ops.Has(operation.Delete) && !ops.Has(operation.Purge) || lifecycle.IsTerminal(err) {
		return err
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	about := status.Status().Details
	if about == nil || about.Kind != e.Kind || about.Name != printable.Text(key) {
		return err
	}
	return &ownGone{err}
}

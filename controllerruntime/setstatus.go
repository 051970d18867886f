package controllerruntime

import (
	"context"
	"fmt"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetStatus gives the primary that is being reconciled the status of obj, which is the primary as its reconcile has read
// it. The status is written when Reconcile returns, with or without an error, in one write with what came of it: readers
// see both at once, and there is one write less than with the client's UpdateStatus. Nothing is written if nothing changed.
//
// What is set last counts, and a crash before the write leaves the status as it was; use UpdateStatus for what must be stored
// before Reconcile goes on. If somebody else has updated the status since obj was read, theirs stays, and the primary is
// reconciled again, with backoff. Where nothing is recorded, which is WithoutTeardown and the reconcile of a delete, SetStatus
// writes at once, and returns the errors of UpdateStatus.
//
// It is an error outside a reconcile, and for another object than the reconciled primary. IsInvalid and
// IsRequestEntityTooLarge are said of a status that no record can have. It may be called concurrently.
func SetStatus(ctx context.Context, obj entity.IEntity) error {
	r, ok := reconcileOf(ctx)
	if !ok {
		return fmt.Errorf("set the status of %q: this is no reconcile's context; use the client's UpdateStatus", objectKey(obj))
	}
	if key := objectKey(obj); key != r.req.Key {
		return fmt.Errorf("set the status of %q in the reconcile of %s %q: use the client's UpdateStatus", key, r.engine.kind, r.req.Key)
	}
	if !r.recorded {
		return r.engine.primary.updateStatus(ctx, obj)
	}
	change, err := r.engine.primary.statusChange(obj)
	if err != nil {
		return err
	}
	r.status.set(change)
	return nil
}

// stagedStatus is what SetStatus was given last.
type stagedStatus struct {
	mu     sync.Mutex
	change *entity.StatusChange
}

func (s *stagedStatus) set(change *entity.StatusChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

func (s *stagedStatus) get() *entity.StatusChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

// statusRefusedError is about a status that cannot be in the record: somebody else has updated it, or it is too large.
type statusRefusedError struct{ err error }

func (e *statusRefusedError) Error() string { return e.err.Error() }
func (e *statusRefusedError) Unwrap() error { return e.err }

// statusRefused puts a key back whose reconcile has set a status that its record cannot have, and notes that.
func (e *engine) statusRefused(ctx context.Context, t *term, it item, v view, err error) {
	e.parked.forget(it.key) // or nothing would ever say that it is
	delay := e.queue.failed(it.key)
	t.logger.Error(err, "Status not written, so the key is reconciled again", "key", it.key, "after", delay)
	condition := reconciledCondition(metav1.ConditionFalse, entity.ReasonRetrying, err.Error(), v.revision)
	if err := e.anchors.annotate(ctx, it.key, v, condition); err != nil && !apierrors.IsConflict(err) {
		e.recordsDegraded(t.ctx, err)
	}
	e.queue.addAfter(it.key, union(it.ops, operations(OperationRetry)), prioBackground, delay, timerRetry)
	e.queue.done(it.key)
}

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
)

// SetStatus gives the primary that is being reconciled the status of obj, which is the primary as this reconcile has read
// it. The status is written when Reconcile returns, with or without an error, in one write with what came of it: readers
// see both at once, and there is one write less than with the client's UpdateStatus. Nothing is written if nothing changed.
//
// What is set last counts, and a crash before the write, or a stop or lost lease that cuts a reconcile short, leaves the status
// as it was; use UpdateStatus for what must be stored before Reconcile goes on, and not both for one object. obj is not told
// its next status revision: read it anew in each reconcile. If somebody else has updated the status since obj was read, theirs
// stays, the outcome is Retrying, and the primary is reconciled again, with a backoff of its own until a status is written; so it
// is where the record is too large with the status. Where nothing is recorded, which is WithoutTeardown and the reconcile of a
// delete, SetStatus writes at once, and returns the errors of UpdateStatus.
//
// It is an error outside a reconcile and after it, and for another object than the reconciled primary. IsInvalid and
// IsRequestEntityTooLarge are said of a status that no record can have. It may be called concurrently. The handlers of the
// Kumori API have no context to call it with; they use UpdateStatus.
func SetStatus(ctx context.Context, obj entity.IEntity) error {
	r, ok := reconcileOf(ctx)
	if !ok {
		return fmt.Errorf("set the status of %q: this is no reconcile's context; use the client's UpdateStatus", source.ObjectKey(obj))
	}
	if err := r.isPrimary(obj); err != nil {
		return err
	}
	if !r.recorded {
		return r.engine.primary.UpdateStatus(ctx, obj)
	}
	change, err := r.engine.primary.StatusChange(obj)
	if err != nil {
		return err
	}
	return r.status.set(change)
}

// isPrimary refuses what is not the reconciled primary, as far as that can be seen: a secondary may have its key and its type.
func (c *reconcileContext) isPrimary(obj entity.IEntity) error {
	key := source.ObjectKey(obj)
	other := key != c.req.Key
	if kind, owner, owned := OwnerOf(obj); owned && kind == c.engine.kind && owner == key {
		other = true
	}
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if cached, ok := c.engine.primary.View(c.req.Key).Object.(runtime.Object); ok && kind != "" && kind != cached.GetObjectKind().GroupVersionKind().Kind {
		other = true
	}
	if other {
		return fmt.Errorf("set the status of %s %q in the reconcile of %s %q: use its client's UpdateStatus", kind, key, c.engine.kind, c.req.Key)
	}
	return nil
}

// stagedStatus is what SetStatus was given last, until the reconcile is over.
type stagedStatus struct {
	mu     sync.Mutex
	change *entity.StatusChange
	over   bool
}

func (s *stagedStatus) set(change *entity.StatusChange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errors.New("set the status: the reconcile of this context is over; use the client's UpdateStatus")
	}
	s.change = change
	return nil
}

// take ends the setting.
func (s *stagedStatus) take() *entity.StatusChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.change
}

package reconcilectx

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
)

// SetStatus implements Reconcile.
func (c *Context) SetStatus(ctx context.Context, obj entity.IEntity) error {
	if err := c.isPrimary(obj); err != nil {
		return err
	}
	if !c.Recorded {
		return c.config.Statuses.UpdateStatus(ctx, obj)
	}
	change, err := c.config.Statuses.StatusChange(obj)
	if err != nil {
		return err
	}
	return c.status.set(change)
}

// isPrimary refuses what is not the reconciled primary, as far as that can be seen: a secondary may have its key and
// its type.
func (c *Context) isPrimary(obj entity.IEntity) error {
	key, ours := source.ObjectKey(obj), c.Primary().Kind
	other := key != c.key
	if kind, owner, owned := entity.OwnerOf(obj); owned && kind == ours && owner == key {
		other = true
	}
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	cached, ok := c.config.Statuses.View(c.key).Object.(runtime.Object)
	if ok && kind != "" && kind != cached.GetObjectKind().GroupVersionKind().Kind {
		other = true
	}
	if other {
		return fmt.Errorf("set the status of %s %q in the reconcile of %s %q: use its client's UpdateStatus",
			kind, key, ours, c.key)
	}
	return nil
}

// TakeStatus ends the setting of the status, and returns what was set last; nil if nothing was.
func (c *Context) TakeStatus() *entity.StatusChange { return c.status.take() }

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

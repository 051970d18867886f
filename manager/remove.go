package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/guard"
)

// Remove takes away what was added. While Run runs, the context of that runnable ends, and of nothing else: the others,
// the lease of the process and Run go on. As at the end of Run, a controller lets its running reconciles go on with a
// live context for its own grace period, but not longer than four fifths of Config.GracePeriod. Remove returns when its
// Run has returned and nothing of it is left, with the error of its Run if that failed; such a failure stops nothing
// else. If ctx ends before, the error says what goes on. That is being removed all the same, and another call of Remove
// waits for it again.
//
// Then the process holds nothing of it any more: the service of Config.Service does not list it, the metrics show
// counters only, and the caches have stopped of those clients of the manager (see [Client]) that no other controller
// uses. A lister of such a client that is read all the same fills its cache again, until the client is closed. Close a
// client that is not needed any more. What was told of it elsewhere is to be taken back there: probes.Probes.Remove
// before Remove, or its end counts as that of a controller that failed. A controller runs once; to run one for the same
// kind again make another, over the same client.
//
// Before Run, what is removed is simply not started. To remove what is done, or has failed, is no error of its own, and
// to remove what was not added is one. A runnable cannot remove itself, nor a reconcile its controller: it would wait
// for itself. While Run is stopping, Remove waits for that stop.
func (m *Manager) Remove(ctx context.Context, r Runnable) error {
	n, err := m.startRemoval(r)
	if err != nil {
		return fmt.Errorf("manager: Remove: %w", err)
	}
	select {
	case <-n.gone:
	case <-m.over:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-n.gone:
	case <-m.over:
		if !n.done {
			return fmt.Errorf("manager: Remove: %s did not return, and was left behind when Run ended", n.name)
		}
	default:
		return fmt.Errorf("manager: Remove: %s goes on, and is being removed: %w", n.name, context.Cause(ctx))
	}
	m.runnables = slices.DeleteFunc(slices.Clone(m.runnables), func(other *named) bool { return other == n })
	if n.err != nil {
		return fmt.Errorf("manager: %w", n.err)
	}
	return nil
}

// errRemoved is why the context of a runnable ends that is removed.
var errRemoved = errors.New("it was removed from the manager")

// startRemoval finds what is to be removed, and has that begin.
func (m *Manager) startRemoval(r Runnable) (*named, error) {
	if guard.IsNil(r) {
		return nil, errors.New("nil was not added")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.runnables, func(n *named) bool { return n.is(r) })
	if i < 0 {
		return nil, fmt.Errorf("%q was not added, or was removed before", nameOf(r))
	}
	n := m.runnables[i]
	switch {
	case n.removing:
	case m.state == running:
		n.removing = true
		m.order(command{remove: n})
	case m.state == collecting:
		n.removing, n.done = true, true
		m.withdraw(n)
		close(n.gone)
	}
	return n, nil
}

// withdraw takes a runnable out of the services among the others.
func (m *Manager) withdraw(n *named) {
	for _, other := range m.runnables {
		if service, ok := other.Runnable.(interface{ Remove(controller any) }); ok {
			service.Remove(n.Runnable)
		}
	}
}

// command is what Run is told while it runs: one of the two.
type command struct {
	add    []*named
	remove *named
}

// order has Run's goroutine obey. The caller holds m.mu, and has seen that Run runs.
func (m *Manager) order(o command) {
	m.orders = append(m.orders, o)
	select {
	case m.ordered <- struct{}{}:
	default: // it will look
	}
}

// takeOrders returns what was ordered since. If that is nothing and last is true, nothing is ordered any more.
func (m *Manager) takeOrders(last bool) []command {
	m.mu.Lock()
	defer m.mu.Unlock()
	orders := m.orders
	m.orders = nil
	if last && len(orders) == 0 {
		m.state = stopping
	}
	return orders
}

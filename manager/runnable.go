package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Runnable is what a manager runs: a controller.Controller, or anything else that runs until its context ends.
//
// Run is to return soon after its context has ended; nil, or the context's error, is then a graceful stop. An error
// before that stops all. Nil before that means that it is done: the others go on, see [Manager.Run].
type Runnable interface {
	Run(ctx context.Context) error
}

// First is a Runnable that may say that it starts before the caches are filled, which may take minutes: a server of
// liveness probes, which would else have the process killed for it (probes.Server does). It ends with the others. It is
// not for controllers: Config.Lease does not hold for what starts first.
type First interface {
	Runnable
	StartsFirst() bool
}

// Func makes a function a Runnable, with the name that errors and logs give it.
func Func(name string, run func(ctx context.Context) error) Runnable {
	if run == nil {
		return nil
	}
	return &function{name, run}
}

type function struct {
	name string
	run  func(ctx context.Context) error
}

func (f *function) Run(ctx context.Context) error { return f.run(ctx) }
func (f *function) Name() string                  { return f.name }

// named is a runnable as it was added.
type named struct {
	Runnable
	name string
	// gone is closed when it was removed and nothing of it is left; err is set before. Run's goroutine alone does both.
	gone chan struct{}
	err  error
	// filled are the caches that were filled for it while Run ran. Run's goroutine alone touches it.
	filled []*registered

	// Manager.mu guards what follows.
	done     bool // it does not run, and will not
	removing bool
}

func (n *named) startsFirst() bool {
	first, ok := n.Runnable.(First)
	return ok && first.StartsFirst()
}

func (n *named) is(r Runnable) bool { return reflect.ValueOf(r).Comparable() && n.Runnable == r }

// isGone reports whether it was removed.
func (n *named) isGone() bool {
	select {
	case <-n.gone:
		return true
	default:
		return false
	}
}

// nameOf is the name that a runnable says it has, or its type.
func nameOf(r Runnable) string {
	if n, ok := r.(interface{ Name() string }); ok {
		return printable.Text(n.Name())
	}
	return fmt.Sprintf("%T", r)
}

func hasName(r Runnable) bool {
	_, has := r.(interface{ Name() string })
	return has
}

// Add adds what is to run: controllers, and anything else with Run(ctx) error; see [Func]. A name stands for one of
// them, so two with one name are an error, and so is one that is added twice, or is nil. Of a call that fails nothing
// is added. A name is free again when what had it was removed (see [Manager.Remove]) or is done.
//
// While Run runs, Add returns when it is certain that Run starts what was added, unless Run stops before. Run first
// fills the caches of clients that were made since (see [Client]), which [Manager.Synced] names meanwhile. Then it is
// as what was there from the beginning: with Config.Lease it leads while this process does, at once if it does
// already; a failure of it, or of the filling, stops all; and it has the grace period at the end. Kubernetes informers
// that it needs are for the caller to start, and its permissions in NATS are those that the process has.
//
// Add fails while Run stops, and after Run or Close.
func (m *Manager) Add(runnables ...Runnable) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case stopping:
		return errors.New("manager: Add while Run is stopping: nothing is started any more")
	case closed:
		return errors.New("manager: Add after Run or Close: add before, or while Run runs")
	}
	all, added := slices.Clone(m.runnables), []*named(nil)
	for i, r := range runnables {
		if guard.IsNil(r) {
			return fmt.Errorf("manager: Add: number %d is nil: leave it away", i+1)
		}
		n := &named{Runnable: r, name: nameOf(r), gone: make(chan struct{})}
		for _, other := range all {
			if err := n.beside(other); err != nil {
				return fmt.Errorf("manager: Add: %w", err)
			}
		}
		all = slices.DeleteFunc(all, n.replaces)
		all, added = append(all, n), append(added, n)
	}
	m.runnables = all
	if m.state == running {
		m.order(command{add: added})
	}
	return nil
}

// beside says why one cannot be added while there is another.
func (n *named) beside(other *named) error {
	same, sameName := other.is(n.Runnable), other.name == n.name && hasName(n.Runnable)
	switch {
	case other.done:
		return nil
	case (same || sameName) && other.removing:
		return fmt.Errorf("%q is being removed: add it when Remove has returned without an error", n.name)
	case same:
		return fmt.Errorf("%q was added before: it can run only once", n.name)
	case sameName:
		return fmt.Errorf("there are two with the name %q, which errors could not tell apart: "+
			"give one another name, as with manager.Func", n.name)
	}
	return nil
}

// replaces reports whether another is forgotten, which is done and has the same name.
func (n *named) replaces(other *named) bool {
	return other.done && (other.is(n.Runnable) || other.name == n.name && hasName(n.Runnable))
}

// present are the runnables that were added and not removed.
func (m *Manager) present() []*named {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.runnables), (*named).isGone)
}

// noteDone notes of some that they will not run any more.
func (m *Manager) noteDone(runnables ...*named) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range runnables {
		n.done = true
	}
}

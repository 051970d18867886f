package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"

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
}

func (n named) startsFirst() bool {
	first, ok := n.Runnable.(First)
	return ok && first.StartsFirst()
}

// nameOf is the name that a runnable says it has, or its type.
func nameOf(r Runnable) string {
	if n, ok := r.(interface{ Name() string }); ok {
		return printable.Text(n.Name())
	}
	return fmt.Sprintf("%T", r)
}

// Add adds what is to run: controllers, and anything else with Run(ctx) error; see [Func]. A name stands for one of
// them, so two with one name are an error, and so is one that is added twice, or is nil. It fails once Run was called:
// what comes later is for the runnables themselves to start.
func (m *Manager) Add(runnables ...Runnable) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != collecting {
		return errors.New("manager: Add after Run or Close: add all before Run")
	}
	added := m.runnables
	for i, r := range runnables {
		if guard.IsNil(r) {
			return fmt.Errorf("manager: Add: number %d is nil: leave it away", i+1)
		}
		n := named{r, nameOf(r)}
		for _, other := range added {
			if reflect.TypeOf(r).Comparable() && other.Runnable == r {
				return fmt.Errorf("manager: Add: %q was added before: it can run only once", n.name)
			}
			if other.name == n.name && hasName(r) {
				return fmt.Errorf("manager: Add: there are two with the name %q, which errors could not tell apart: "+
					"give one another name, as with manager.Func", n.name)
			}
		}
		added = append(added, n)
	}
	m.runnables = added
	return nil
}

func hasName(r Runnable) bool {
	_, has := r.(interface{ Name() string })
	return has
}

package manager

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/internal/guard"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Informers is a factory of Kubernetes informers: SharedInformerFactory of client-go's informers, generated ones of the
// same form, and DynamicSharedInformerFactory. Beside these methods it has WaitForCacheSync(stopCh <-chan struct{}),
// which returns a map of reflect.Type, or of GroupVersionResource, to bool.
type Informers interface {
	// Start starts the informers that were asked for, and returns at once.
	Start(stopCh <-chan struct{})
	// Shutdown waits for them, after stopCh was closed.
	Shutdown()
}

// factory is one that was added.
type factory struct {
	Informers
	name     string
	optional bool // Run does not wait for it
	wait     func(stopCh <-chan struct{}) (missing []string)
}

// AddInformers adds factories of Kubernetes informers. Run starts them before what was added with Add, waits until they
// have synced, and stops them after it. So make the controllers, which ask for informers, before Run. It fails once Run
// was called.
func (m *Manager) AddInformers(factories ...Informers) error {
	return m.addInformers("AddInformers", false, factories)
}

// AddOptionalInformers is AddInformers of factories whose informers Run does not wait for: those of sources that are
// optional (controller.WithOptional), such as of a CustomResourceDefinition that may not be installed yet. A controller
// waits for its other sources itself.
func (m *Manager) AddOptionalInformers(factories ...Informers) error {
	return m.addInformers("AddOptionalInformers", true, factories)
}

func (m *Manager) addInformers(method string, optional bool, factories []Informers) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != collecting {
		return fmt.Errorf("manager: %s after Run or Close: add all before Run", method)
	}
	var added []factory
	for i, f := range factories {
		if guard.IsNil(f) {
			return fmt.Errorf("manager: %s: number %d is nil: leave it away", method, i+1)
		}
		number := len(m.factories) + len(added) + 1
		name := fmt.Sprintf("Kubernetes informers (number %d, %T)", number, f)
		one := factory{Informers: f, name: name, optional: optional, wait: waitOf(f)}
		if one.wait == nil {
			return fmt.Errorf("manager: %s: number %d, a %T, has no WaitForCacheSync as client-go's "+
				"factories have: make it a Runnable, and add it with Add", method, i+1, f)
		}
		added = append(added, one)
	}
	m.factories = append(m.factories, added...)
	return nil
}

// waitOf is how to wait for a factory; nil if it cannot be waited for.
func waitOf(f Informers) func(stopCh <-chan struct{}) (missing []string) {
	switch f := f.(type) {
	case interface {
		WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool
	}:
		return func(stopCh <-chan struct{}) []string { return missingOf(f.WaitForCacheSync(stopCh)) }
	case interface {
		WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
	}:
		return func(stopCh <-chan struct{}) []string { return missingOf(f.WaitForCacheSync(stopCh)) }
	}
	return nil
}

func missingOf[K comparable](synced map[K]bool) (missing []string) {
	for resource, has := range synced {
		if !has {
			missing = append(missing, fmt.Sprint(resource))
		}
	}
	slices.Sort(missing)
	return missing
}

// sync starts the informers and waits for them, unless they are optional.
func (f *factory) sync(ctx context.Context, stopCh <-chan struct{}) error {
	f.Start(stopCh)
	if f.optional {
		return nil
	}
	if missing := f.wait(ctx.Done()); len(missing) > 0 || ctx.Err() != nil {
		return fmt.Errorf("%w: not synced: %v", context.Cause(ctx), missing)
	}
	return nil
}

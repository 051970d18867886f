package controllerruntime

import (
	"fmt"
	"reflect"
	"runtime/debug"

	"k8s.io/client-go/tools/cache"
)

// handlers are the event handlers that a source put on shared caches; it takes off what it put on, and no more.
type handlers struct {
	registered []registration
}

type registration struct {
	informer cache.SharedIndexInformer
	handle   cache.ResourceEventHandlerRegistration
}

func (h *handlers) add(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	handle, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("add event handler: %w", err)
	}
	h.registered = append(h.registered, registration{informer: informer, handle: handle})
	return nil
}

// synced are done when the handlers have seen the whole initial list.
func (h *handlers) synced() []cache.DoneChecker {
	checkers := make([]cache.DoneChecker, len(h.registered))
	for i, r := range h.registered {
		checkers[i] = r.handle.HasSyncedChecker()
	}
	return checkers
}

func (h *handlers) remove() {
	for _, r := range h.registered {
		// It fails only for a handle of another informer, or a stopped informer, where there is nothing left to remove.
		_ = r.informer.RemoveEventHandler(r.handle)
	}
	h.registered = nil
}

// guard calls user code and turns a panic into an error with a stack.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// isNil also sees a nil pointer in an interface, which is what a variable that was never set becomes.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	switch value.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Interface, reflect.Slice:
		return value.IsNil()
	}
	return false
}

package source

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Handlers are the event handlers that a source put on shared caches; it takes off what it put on, and no more.
type Handlers struct {
	registered []registration
}

type registration struct {
	informer cache.SharedIndexInformer
	handle   cache.ResourceEventHandlerRegistration
}

// Add adds a handler to an informer, until Remove.
func (h *Handlers) Add(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	handle, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("add event handler: %w", err)
	}
	h.registered = append(h.registered, registration{informer: informer, handle: handle})
	return nil
}

// Synced are done when the handlers have seen the whole initial list.
func (h *Handlers) Synced() []cache.DoneChecker {
	checkers := make([]cache.DoneChecker, len(h.registered))
	for i, r := range h.registered {
		checkers[i] = r.handle.HasSyncedChecker()
	}
	return checkers
}

// Remove takes off the handlers that Add added.
func (h *Handlers) Remove() {
	for _, r := range h.registered {
		// It fails only for a handle of another informer, or a stopped informer, where there is nothing left to remove.
		_ = r.informer.RemoveEventHandler(r.handle)
	}
	h.registered = nil
}

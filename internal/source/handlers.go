package source

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Handlers are the event handlers that a source put on shared caches; it takes off what it put on, and no more. All
// methods may be called concurrently.
type Handlers struct {
	mu         sync.Mutex
	registered []registration
	synced     []cache.DoneChecker // also of those that were taken off
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registered = append(h.registered, registration{informer: informer, handle: handle})
	h.synced = append(h.synced, handle.HasSyncedChecker())
	return nil
}

// Synced are done when the handlers have seen the whole initial list. What had not synced before Remove never has.
func (h *Handlers) Synced() []cache.DoneChecker {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.synced)
}

// Remove takes off the handlers that Add added, and waits for those that are called just now. A handler must not call
// it.
func (h *Handlers) Remove() {
	h.mu.Lock()
	registered := h.registered
	h.registered = nil
	h.mu.Unlock()
	for _, r := range registered {
		// It fails only for a handle of another informer, or a stopped informer, where there is nothing left to remove.
		_ = cache.ShutDownEventHandler(r.informer, r.handle)
	}
}

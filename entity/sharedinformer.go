package entity

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// startingInformer is an informer whose Run is a user of its client. It starts documents and records. When its context
// ends, it releases them and returns.
type startingInformer struct {
	natsinformer.Informer
	start        func() (stop func(), err error)
	setTransform func(cache.TransformFunc) error
}

// SetTransform is that of the cache, or refuses.
func (i *startingInformer) SetTransform(call cache.TransformFunc) error { return i.setTransform(call) }

// Run blocks until stopCh is closed. Prefer Client.Start.
func (i *startingInformer) Run(stopCh <-chan struct{}) {
	stop, err := i.start()
	if err != nil {
		klog.Background().Error(err, "Informer was not started")
		return
	}
	defer stop()
	<-stopCh
}

// RunWithContext blocks until the context ends. Prefer Client.Start.
func (i *startingInformer) RunWithContext(ctx context.Context) {
	stop, err := i.start()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Informer was not started")
		return
	}
	defer stop()
	<-ctx.Done()
}

// sharedInformer is the informer of documents as the users of one generation of one client get it. It ends with that
// generation, and takes the handlers off that were added through it, while the cache may go on for other clients.
type sharedInformer struct {
	startingInformer

	mu    sync.Mutex
	ended bool
	// handlers are those that were added and may still run; true: they were removed.
	handlers map[cache.ResourceEventHandlerRegistration]bool
}

var errInformerEnded = errors.New("the handler was not added: the client of this informer was stopped by its last " +
	"user, or closed; ask the client for another informer")

func newSharedInformer(starting startingInformer) *sharedInformer {
	return &sharedInformer{
		startingInformer: starting,
		handlers:         map[cache.ResourceEventHandlerRegistration]bool{},
	}
}

// AddEventHandler adds a handler until the client's last user stops.
func (i *sharedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod is AddEventHandler. The informers of package natsinformer do not resync.
func (i *sharedInformer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions is AddEventHandler.
func (i *sharedInformer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil, errInformerEnded
	}
	handle, err := i.Informer.AddEventHandlerWithOptions(h, options)
	if err == nil {
		i.handlers[handle] = false
	}
	return handle, err
}

// RemoveEventHandler takes a handler off, as that of client-go does: it does not wait for the handler. The stop of the
// client's last user does.
func (i *sharedInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	err := i.Informer.RemoveEventHandler(handle)
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, known := i.handlers[handle]; known && err == nil {
		i.handlers[handle] = true
	}
	maps.DeleteFunc(i.handlers, func(handle cache.ResourceEventHandlerRegistration, removed bool) bool {
		return removed && hasEnded(handle)
	})
	return err
}

// hasEnded reports whether a handler that was removed does not run any more.
func hasEnded(handle cache.ResourceEventHandlerRegistration) bool {
	h, tells := handle.(interface{ ShutdownChan() <-chan struct{} })
	if !tells {
		return true
	}
	select {
	case <-h.ShutdownChan():
		return true
	default:
		return false
	}
}

// IsStopped reports whether the client's last user has stopped.
func (i *sharedInformer) IsStopped() bool {
	i.mu.Lock()
	ended := i.ended
	i.mu.Unlock()
	return ended || i.Informer.IsStopped()
}

// end takes off the handlers that are left, and waits for all of them.
func (i *sharedInformer) end() {
	i.mu.Lock()
	i.ended = true
	handlers := i.handlers
	i.handlers = nil
	i.mu.Unlock()
	for handle := range handlers {
		// It fails only for a handle of another informer.
		_ = cache.ShutDownEventHandler(i.Informer, handle)
	}
}

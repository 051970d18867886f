package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The types of events, as in Kubernetes.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// Recorder is the user's recorder of events.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// eventAbout records an event about an object. What is no object of Kubernetes' machinery is left out.
func (e *Engine) eventAbout(object any, eventType, reason, message string) {
	if r, ok := object.(runtime.Object); ok && e.recorder != nil {
		e.callback(context.Background(), "WithEventRecorder", func() {
			e.recorder.Event(r, eventType, reason, message)
		})
	}
}

// EventOfSelf records an event about the controller.
func (e *Engine) EventOfSelf(eventType, reason, message string) {
	e.eventAbout(standIn("Controller", "", e.name), eventType, reason, message)
}

// EventOf records an event about the primary with that key, which may be gone.
func (e *Engine) EventOf(key, eventType, reason, message string) {
	v := e.primary.View(key)
	if v.Object == nil {
		if deleted := e.lastSeen(key); deleted != nil {
			e.eventAbout(deleted, eventType, reason, message)
			return
		}
	}
	e.eventOfView(key, v, eventType, reason, message)
}

// warn records a warning about the primary with that key.
func (e *Engine) warn(key, reason, message string) { e.EventOf(key, EventWarning, reason, message) }

// eventOfView records an event about the primary as it was viewed, or about what stands for one that never was.
func (e *Engine) eventOfView(key string, v source.View, eventType, reason, message string) {
	if v.Object != nil {
		e.eventAbout(v.Object, eventType, reason, message)
		return
	}
	namespace, name, _ := cache.SplitMetaNamespaceKey(key) // the key is well formed
	e.eventAbout(standIn(e.Kind, namespace, name), eventType, reason, message)
}

func standIn(kind, namespace, name string) *entity.Object[struct{}, struct{}] {
	o := &entity.Object[struct{}, struct{}]{}
	o.Kind, o.Namespace, o.Name = kind, namespace, name
	return o
}

// The reasons of events about the lease.
const (
	reasonWon  = "LeaseWon"
	reasonLost = "LeaseLost"
)

// stuckRecorder is how long the end of a term waits for events about it. A recorder that does not return shows as a
// callback that is stuck.
const stuckRecorder = time.Second

// tellTerms returns lead with an event about the controller when a term begins, and one at once when the lease was
// lost, which is when a term ends before ctx does. Each term has the same text, so that a lease that goes to and fro is
// one event with a count. The work of a term does not wait for the recorder.
func (e *Engine) tellTerms(
	ctx context.Context, identity string, lead func(context.Context, *lease.Term),
) func(context.Context, *lease.Term) {
	return func(term context.Context, won *lease.Term) {
		told := make(chan struct{})
		go func() {
			defer close(told)
			e.EventOfSelf(EventNormal, reasonWon, identity+" holds the lease and works")
			<-term.Done()
			if ctx.Err() == nil {
				e.logLoss(ctx, identity, context.Cause(term))
				e.EventOfSelf(EventWarning, reasonLost,
					identity+" works no more: "+printable.Message(context.Cause(term).Error()))
			}
		}()
		lead(term, won) // it returns only when the term is over
		select {
		case <-told:
		case <-time.After(stuckRecorder):
		}
	}
}

// logLoss logs that the lease was lost. Where the process has a lease for all its controllers, it tells that itself.
func (e *Engine) logLoss(ctx context.Context, identity string, why error) {
	logger := printable.Logger(klog.FromContext(ctx))
	if lease.IsHosted(ctx) {
		logger = logger.V(1)
	}
	logger.Info("Lease lost, this replica works no more", "identity", identity, "why", why.Error())
}

package engine

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
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

// Events records events about the primaries of a controller, and about the controller itself.
type Events struct {
	Name     string // the controller's
	Kind     string // of its primaries
	Recorder Recorder
	View     func(key string) source.View
	// LastSeen is the primary that was deleted, until its teardown is over; nil if none is known.
	LastSeen func(key string) metav1.Object
	// Callback runs a callback of the user, which may panic.
	Callback func(name string, f func())
}

// Record records an event about an object. What is no object of Kubernetes' machinery is left out.
func (e *Events) Record(object any, eventType, reason, message string) {
	if r, ok := object.(runtime.Object); ok && e.Recorder != nil {
		e.Callback("WithEventRecorder", func() { e.Recorder.Event(r, eventType, reason, message) })
	}
}

// Self records an event about the controller.
func (e *Events) Self(eventType, reason, message string) {
	e.Record(standIn("Controller", "", e.Name), eventType, reason, message)
}

// Primary records an event about the primary with that key, which may be gone.
func (e *Events) Primary(key, eventType, reason, message string) {
	v := e.View(key)
	if v.Object == nil {
		if deleted := e.LastSeen(key); deleted != nil {
			e.Record(deleted, eventType, reason, message)
			return
		}
	}
	e.Of(key, v, eventType, reason, message)
}

// Of records an event about the primary as it was viewed, or about what stands for one that never was.
func (e *Events) Of(key string, v source.View, eventType, reason, message string) {
	if v.Object != nil {
		e.Record(v.Object, eventType, reason, message)
		return
	}
	namespace, name, _ := cache.SplitMetaNamespaceKey(key) // the key is well formed
	e.Record(standIn(e.Kind, namespace, name), eventType, reason, message)
}

func standIn(kind, namespace, name string) *entity.Object[struct{}, struct{}] {
	o := &entity.Object[struct{}, struct{}]{}
	o.Kind, o.Namespace, o.Name = kind, namespace, name
	return o
}

package reconciletest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Recorder keeps events. It is a controller.EventRecorder, and a record.EventRecorder of client-go. Give one to a
// reconciler that records events by itself, and with controller.WithEventRecorder to New: then Outcome.Events has both
// its events and those of the runtime. The zero value is ready. All methods may be called concurrently.
type Recorder struct {
	mu     sync.Mutex
	events []Event
	next   controller.EventRecorder // gets each event too; nil if there is none
}

var _ controller.EventRecorder = (*Recorder)(nil)

// Event keeps an event about object.
func (r *Recorder) Event(object runtime.Object, eventtype, reason, message string) {
	event := Event{Type: eventtype, Reason: reason, Message: message}
	if object != nil {
		event.Kind = object.GetObjectKind().GroupVersionKind().Kind
	}
	if named, err := meta.Accessor(object); err == nil {
		event.Key = cache.ObjectName{Namespace: named.GetNamespace(), Name: named.GetName()}.String()
	}
	r.mu.Lock()
	r.events = append(r.events, event)
	r.mu.Unlock()
	if r.next != nil {
		r.next.Event(object, eventtype, reason, message)
	}
}

// Eventf is Event with a format.
func (r *Recorder) Eventf(object runtime.Object, eventtype, reason, format string, args ...any) {
	r.Event(object, eventtype, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf is Eventf; the annotations are not kept.
func (r *Recorder) AnnotatedEventf(
	object runtime.Object, _ map[string]string, eventtype, reason, format string, args ...any,
) {
	r.Eventf(object, eventtype, reason, format, args...)
}

// Events are all events so far, in order.
func (r *Recorder) Events() []Event { return r.since(0) }

func (r *Recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

func (r *Recorder) since(count int) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[count:])
}

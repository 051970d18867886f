package controller

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"k8s.io/apimachinery/pkg/runtime"
)

// EventRecorder takes events about primaries and about the controller itself. It must not block, and is called
// concurrently. client-go's record.EventRecorder is one, and so is a recorder.Recorder.
//
// It is declared here because client-go's package would bring seventy more packages, for one method.
type EventRecorder interface {
	// Event records that something happened to object. eventtype is "Normal" or "Warning"; reason is one word in
	// UpperCamelCase for programs, message is for people.
	Event(object runtime.Object, eventtype, reason, message string)
}

// WithEventRecorder has the runtime record events about primaries (attempts that fail, panics, terminal errors,
// invalid documents, a reconcile that wakes itself or is stuck) and about itself: the brake, the lease won and lost, an
// API or another source that goes away and comes back. Of failures in a row the first is an event, and then each time
// that the attempts have doubled, or another error comes. What comes and goes is told of after pauses.
// Package recorder makes a recorder that knows NATS entities. The default records no events.
func WithEventRecorder(r EventRecorder) Option {
	return func(o *engine.Options) error {
		if guard.IsNil(r) {
			return errors.New("WithEventRecorder(nil): a recorder is needed; leave the option away instead")
		}
		o.Recorder = r
		return nil
	}
}

package controllerruntime

import (
	"testing"

	"github.com/nagi-runtime/nagi/recorder"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// The recorders of client-go and of package recorder are event recorders.
var (
	_ EventRecorder = record.EventRecorder(nil)
	_ EventRecorder = (*recorder.Recorder)(nil)
)

func TestTheTypesOfEventsAreThoseOfKubernetes(t *testing.T) {
	if eventNormal != corev1.EventTypeNormal || eventWarning != corev1.EventTypeWarning {
		t.Errorf("%q and %q, want %q and %q", eventNormal, eventWarning, corev1.EventTypeNormal, corev1.EventTypeWarning)
	}
}

package telling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheTypesOfEventsAreThoseOfKubernetes(t *testing.T) {
	if EventNormal != corev1.EventTypeNormal || EventWarning != corev1.EventTypeWarning {
		t.Errorf("%q and %q, want %q and %q", EventNormal, EventWarning, corev1.EventTypeNormal,
			corev1.EventTypeWarning)
	}
}

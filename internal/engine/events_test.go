package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheTypesOfEventsAreThoseOfKubernetes(t *testing.T) {
	if eventNormal != corev1.EventTypeNormal || eventWarning != corev1.EventTypeWarning {
		t.Errorf("%q and %q, want %q and %q", eventNormal, eventWarning, corev1.EventTypeNormal,
			corev1.EventTypeWarning)
	}
}

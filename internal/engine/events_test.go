package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/guard"
	corev1 "k8s.io/api/core/v1"
)

func TestTheTypesOfEventsAreThoseOfKubernetes(t *testing.T) {
	if EventNormal != corev1.EventTypeNormal || EventWarning != corev1.EventTypeWarning {
		t.Errorf("%q and %q, want %q and %q", EventNormal, EventWarning, corev1.EventTypeNormal,
			corev1.EventTypeWarning)
	}
}

func TestTheReasonOfAPanicHasNoStack(t *testing.T) {
	err := fmt.Errorf("reconcile: %w", guard.Call(func() error { panic("boom\x07") }))
	if reason, message := failureOf(err); reason != reasonPanicked || message != `panic: boom\a` {
		t.Errorf("%s %q", reason, message)
	}
	if reason, message := failureOf(errors.New(strings.Repeat("x", 10_000))); reason != reasonFailed || len(message) > 1100 {
		t.Errorf("%s, %d bytes", reason, len(message))
	}
}

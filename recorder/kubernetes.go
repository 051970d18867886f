package recorder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// KubernetesSink takes events about Kubernetes objects to an API server. Package kuberecorder makes one of a clientset.
// This package does not import it, so that a program which records events about NATS entities alone does not compile
// the clientset.
type KubernetesSink interface {
	// Scheme knows the kinds of the API server. It is the default of Config.Scheme and must not be nil.
	Scheme() *runtime.Scheme
	// Start begins to send the events of one recorder. New calls it once, with its Config and all defaults filled in.
	// It must not wait for a server.
	Start(cfg Config) KubernetesEvents
}

// KubernetesEvents sends the events of one recorder. All methods may be called concurrently.
type KubernetesEvents interface {
	// Record takes an event and returns at once. It may keep the reference and the annotations.
	// The recorder does not call it once it calls Close.
	Record(about *corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string)
	// Counts returns how many events were Published, Failed and Dropped so far. The other counts are the recorder's.
	Counts() Counts
	// Err returns the last problem, also when it is over; nil if there was none.
	Err() error
	// Close sends what was recorded until ctx is over, and drops the rest. It leaves no goroutine.
	// The error is about events that were not sent in time.
	Close(ctx context.Context) error
}

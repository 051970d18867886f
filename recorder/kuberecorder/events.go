package kuberecorder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/nagi-runtime/nagi/recorder"
)

// flushKind is the kind of an object that does not exist: an event about it never leaves the process. It comes out of
// client-go's queue after all events before it; there is no other way to see that they are done.
const flushKind = "nagi-recorder-flush"

// events sends the events of one recorder with client-go's broadcaster: its queue and its correlator.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	writer      *writer
	cancel      context.CancelFunc
}

var _ recorder.KubernetesEvents = (*events)(nil)

func newEvents(api typedcorev1.EventInterface, cfg recorder.Config) *events {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), *cfg.Logger))
	w := newWriter(ctx, api, cfg)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(cfg.Correlator))
	broadcaster.StartRecordingToSink(w)
	source := corev1.EventSource{Component: cfg.Component, Host: cfg.Host}
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(cfg.Scheme, source).WithLogger(*cfg.Logger),
		writer:      w,
		cancel:      cancel,
	}
}

// Record puts an event into the broadcaster's queue. The broadcaster drops it if the queue is full.
func (e *events) Record(
	about *corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string,
) {
	e.recorder.AnnotatedEventf(about, annotations, eventtype, reason, "%s", message)
}

func (e *events) Counts() recorder.Counts {
	return recorder.Counts{
		Published: e.writer.published.Load(),
		Failed:    e.writer.failed.Load(),
		Dropped:   e.writer.dropped.Load(),
	}
}

func (e *events) Err() error {
	if err := e.writer.lastErr.Load(); err != nil {
		return *err
	}
	return nil
}

// Close waits until all events were tried, or ctx is over, and ends client-go's goroutines.
func (e *events) Close(ctx context.Context) error {
	err := e.flush(ctx)
	e.cancel()
	e.broadcaster.Shutdown()
	e.writer.waitIdle()
	return err
}

func (e *events) flush(ctx context.Context) error {
	// A full queue drops our event like any other, so it is sent again, with a new UID: no two may look the same.
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for i := 0; ; i++ {
		marker := &corev1.ObjectReference{Kind: flushKind, Name: flushKind, UID: types.UID(fmt.Sprint(i))}
		e.recorder.Event(marker, corev1.EventTypeNormal, "Flush", "")
		select {
		case <-e.writer.flushed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("recorder: events about Kubernetes objects were not all sent: %w", ctx.Err())
		case <-again.C:
		}
	}
}

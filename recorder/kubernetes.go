package recorder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// flushKind is the kind of an object that does not exist: an event about it never leaves the process. It comes out of
// client-go's queue after all events before it, which is the only way to see that they are done.
const flushKind = "nagi-recorder-flush"

// kubeEvents sends events to the API server with client-go's broadcaster: its queue and its correlator.
type kubeEvents struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	sink        *kubeSink
	cancel      context.CancelFunc
	counts      *counters
}

func newKubeEvents(cfg Config) *kubeEvents {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), *cfg.Logger))
	counts := &counters{}
	sink := newKubeSink(ctx, cfg, counts)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(cfg.Correlator))
	broadcaster.StartRecordingToSink(sink)
	return &kubeEvents{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(cfg.Scheme, corev1.EventSource{Component: cfg.Component, Host: cfg.Host}).WithLogger(*cfg.Logger),
		sink:        sink,
		cancel:      cancel,
		counts:      counts,
	}
}

// close waits until all events were tried, or ctx is over, and ends client-go's goroutines.
func (k *kubeEvents) close(ctx context.Context) error {
	err := k.flush(ctx)
	k.cancel()
	k.broadcaster.Shutdown()
	k.sink.waitIdle()
	return err
}

func (k *kubeEvents) flush(ctx context.Context) error {
	// A full queue loses our event as any other, so it is sent again; with another UID, for no two may look the same.
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for i := 0; ; i++ {
		marker := &corev1.ObjectReference{Kind: flushKind, Name: flushKind, UID: types.UID(fmt.Sprint(i))}
		k.recorder.Event(marker, corev1.EventTypeNormal, "Flush", "")
		select {
		case <-k.sink.flushed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("recorder: events about Kubernetes objects were not all sent: %w", ctx.Err())
		case <-again.C:
		}
	}
}

package recorder_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// A server may limit how many messages are asked for at a time, and a stream how long its consumers may be idle.
func TestEventsAreListedWithinTheLimitsOfTheServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, js := start(t, recorder.Config{
			Correlator: record.CorrelatorOptions{BurstSize: 1000, MaxEvents: 1000},
		}, natstest.WithConfigText(`jetstream { limits { max_request_batch: 3 } }`))
		for i := range 10 {
			rec.Eventf(website("", "blog"), corev1.EventTypeNormal, "Synced", "%d", i)
		}
		streamReady(t, js)
		stream, err := js.Stream(t.Context(), recorder.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.ConsumerLimits = jetstream.StreamConsumerLimits{InactiveThreshold: 10 * time.Second}
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		if events := list(t, rec, "Website", "blog"); len(events) != 10 {
			t.Errorf("%d of 10 events are listed", len(events))
		}
	})
}

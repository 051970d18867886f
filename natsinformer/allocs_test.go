//go:build !race

package natsinformer

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAllocationsOfAnEvent holds how often an informer allocates from a message to the return of the event handler,
// beyond what a pull consumer does that only receives. The server and the writer are in this process and allocate with
// both. Decode returns an object with only its name.
func TestAllocationsOfAnEvent(t *testing.T) {
	js := connect(t, natstest.Start(t).URL())
	bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage})

	received := &atomic.Int64{}
	consumer, err := js.CreateConsumer(t.Context(), "KV_b", jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: "$KV.b.>",
	})
	must(t, err)
	consuming, err := consumer.Consume(func(jetstream.Msg) { received.Add(1) }, jetstream.PullMaxMessages(pullBatch))
	must(t, err)
	raw := allocationsPerPut(t, js, received)
	consuming.Stop()
	<-consuming.Closed()

	handled := &atomic.Int64{}
	informer, err := New(js, Config{Bucket: "b", Decode: func(e Entry) (kruntime.Object, error) {
		return &thing{ObjectMeta: metav1.ObjectMeta{Name: e.Key}}, nil
	}})
	must(t, err)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { handled.Add(1) }})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	<-informer.HasSyncedChecker().Done()
	ours := allocationsPerPut(t, js, handled)
	t.Logf("%.1f allocations of an event, %.1f with a raw consumer", ours, raw)
	if more, limit := ours-raw, 6.0; more > limit {
		t.Errorf("an event allocates %.1f times more than with a raw consumer, want at most %.1f", more, limit)
	}
}

// allocationsPerPut puts some keys again and again, and returns how often this whole process allocates for one put
// until it has arrived.
func allocationsPerPut(t *testing.T, js jetstream.JetStream, arrived *atomic.Int64) float64 {
	t.Helper()
	const keys, rounds = 100, 50
	round := func() {
		before := arrived.Load()
		for i := range keys {
			_, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("$KV.b.site-%d", i), Data: doc(i)})
			must(t, err)
		}
		natstest.Eventually(t, "all have arrived", func() bool { return arrived.Load() >= before+keys })
	}
	round()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / (keys * rounds)
}

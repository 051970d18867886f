package recorder_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// BenchmarkEvent measures what recording costs a reconcile.
func BenchmarkEvent(b *testing.B) {
	rec, err := recorder.New(recorder.Config{})
	if err != nil {
		b.Fatal(err)
	}
	site := website("shop", "frontend")
	b.ReportAllocs()
	for b.Loop() {
		rec.Event(site, corev1.EventTypeNormal, "Synced", "done")
	}
}

// BenchmarkPublish measures how fast different events reach the stream, counting and throttling included.
func BenchmarkPublish(b *testing.B) {
	server := natstest.Start(b)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	rec, err := recorder.New(recorder.Config{JetStream: js, QueueSize: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	i, begin := 0, time.Now()
	for b.Loop() {
		i++
		rec.Event(website("shop", fmt.Sprint("site-", i)), corev1.EventTypeNormal, "Synced", "done")
	}
	if err := closeWithin(rec, time.Minute); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(rec.Stats().NATS.Published)/time.Since(begin).Seconds(), "published/s")
}

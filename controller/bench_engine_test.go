package controller

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// primariesOf is how many primaries BenchmarkDispatch has. NAGI_BENCH_KEYS changes it.
func primariesOf(b *testing.B) int {
	if s := os.Getenv("NAGI_BENCH_KEYS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return 500_000
}

// document is about 450 bytes, as a real entity has them.
func document(i int) []byte {
	return fmt.Appendf(nil,
		`{"metadata":{"labels":{"app":"site-%d","tier":"front","env":"production"},`+
			`"annotations":{"team":"web","description":"%0200d"}},`+
			`"spec":{"title":"The site number %d of the benchmark","pages":%d}}`, i, i, i, i%10)
}

func benchClient(b *testing.B, js jetstream.JetStream) *entity.Client[*site] {
	client, err := entity.NewClient[*site](b.Context(), js,
		entity.Config{Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

func putAll(b *testing.B, js jetstream.JetStream, n int) {
	for i := range n {
		if _, err := js.PublishAsync("$KV.sites.site-"+strconv.Itoa(i), document(i),
			jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		b.Fatal("publishing did not finish")
	}
}

// BenchmarkDispatch takes keys through the whole engine with an empty reconciler: queue, view of the primary, record,
// own writes, context, reconcile, result. cold is the first time, when anchor and record are written; warm is when
// they are. The order of the keys matters to the processor's caches, so warm is measured with two.
func BenchmarkDispatch(b *testing.B) {
	server := natstest.Start(b)
	_, js := natstest.Connect(b, server.URL())
	client := benchClient(b, js)
	n := primariesOf(b)
	putAll(b, js, n)
	for _, workers := range []int{1, 8} {
		var reconciled atomic.Int64
		done := make(chan struct{}, 1)
		r := ReconcilerFunc(func(context.Context, Request) (Result, error) {
			if reconciled.Add(1) == int64(n) {
				done <- struct{}{}
			}
			return Result{}, nil
		})
		c, err := New("sites", client, r, WithWorkers(workers), WithResyncInterval(0))
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		start := time.Now()
		go func() { stopped <- c.Run(ctx) }()
		<-done
		for c.engine.QueueCounts().InProgress > 0 {
			time.Sleep(time.Millisecond)
		}
		if cold := float64(n) / time.Since(start).Seconds(); workers == 1 {
			b.Run("cold/workers=1", func(b *testing.B) {
				for b.Loop() { // a key is cold once: it was measured above
				}
				b.ReportMetric(cold, "keys/s")
			})
		}
		q := c.engine.Explainer().Queue
		warm := func(name string, keys []string) {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					reconciled.Store(0)
					for _, key := range keys {
						q.Add(key, operation.Of(OperationResync), queue.Background)
					}
					<-done
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
			})
		}
		keys := client.Informer().GetStore().ListKeys()
		warm("warm", keys) // in the order of a map
		slices.Sort(keys)
		warm("warm,sorted", keys)
		stop := poll(c, 10, 20)
		warm("warm,sorted,polled", keys)
		stop()
		cancel()
		if err := <-stopped; err != nil {
			b.Fatal(err)
		}
	}
}

// poll has pollers list pages of keys in two states, and the first keys in an order, so many times a second each.
func poll(c *Controller[*site], pollers, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range pollers {
		all.Go(func() {
			turn := time.NewTicker(time.Second / time.Duration(perSecond))
			defer turn.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-turn.C:
				}
				if i%2 == 0 {
					c.TopKeys(10, OldestFirst, StateReady)
					continue
				}
				seen := 0
				for range c.KeysAfter("", StateReady, StateParked) {
					if seen++; seen == 50 {
						break
					}
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// BenchmarkPutToReconcile is the time from a put by another connection to Reconcile being entered, and beside it,
// taken in turn, the time from a put to a raw pull consumer having it.
func BenchmarkPutToReconcile(b *testing.B) {
	server := natstest.Start(b)
	_, js := natstest.Connect(b, server.URL())
	_, writer := natstest.Connect(b, server.URL())
	client := benchClient(b, js)
	entered := make(chan time.Time, 1)
	c, err := New("sites", client, ReconcilerFunc(func(context.Context, Request) (Result, error) {
		now := time.Now()
		select {
		case entered <- now:
		default:
		}
		return Result{}, nil
	}), WithResyncInterval(0))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-stopped; err != nil {
			b.Error(err)
		}
	}()
	raw := rawWatch(b, js, writer)
	const subject = "$KV.sites.hot"
	put := func(js jetstream.JetStream, subject string, i int) time.Time {
		start := time.Now()
		if err := js.Conn().Publish(subject, document(i)); err != nil {
			b.Fatal(err)
		}
		if err := js.Conn().Flush(); err != nil {
			b.Fatal(err)
		}
		return start
	}
	put(writer, subject, 0)
	<-entered
	var ours, theirs []time.Duration
	for i := 0; b.Loop(); i++ {
		for undone(c.engine.QueueCounts()) > 0 {
			time.Sleep(100 * time.Microsecond)
		}
		start := put(writer, subject, i)
		ours = append(ours, (<-entered).Sub(start))
		start = put(writer, "$KV.raw.hot", i)
		theirs = append(theirs, (<-raw).Sub(start))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	o, t := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(o.Microseconds()), "µs-reconcile")
	b.ReportMetric(float64(t.Microseconds()), "µs-raw")
	b.ReportMetric(float64(o)/float64(t), "ratio")
}

// rawWatch is a pull consumer that does nothing but note the time.
func rawWatch(b *testing.B, js, writer jetstream.JetStream) <-chan time.Time {
	if _, err := js.CreateKeyValue(b.Context(),
		jetstream.KeyValueConfig{Bucket: "raw", Storage: jetstream.MemoryStorage}); err != nil {
		b.Fatal(err)
	}
	consumer, err := js.CreateConsumer(b.Context(), "KV_raw", jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: "$KV.raw.>",
	})
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan time.Time, 1)
	consuming, err := consumer.Consume(func(jetstream.Msg) { seen <- time.Now() })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(consuming.Stop)
	return seen
}

package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/operation"
	"k8s.io/client-go/util/workqueue"
)

// The queue's benchmarks run each load on ours and on client-go's plain workqueue,
// which keeps neither reasons nor priorities, in the same process.

const benchKeys = 500_000

// benchQueue is what both have in common.
type benchQueue struct {
	Add      func(string)
	Get      func() (string, bool)
	Done     func(string)
	ShutDown func()
}

func benchQueues(b *testing.B, load func(b *testing.B, open func() benchQueue)) {
	b.Run("nagi", func(b *testing.B) {
		load(b, func() benchQueue {
			q := New(Options{})
			return benchQueue{
				Add:      func(key string) { q.Add(key, operation.Of(operation.Put), Live) },
				Get:      func() (string, bool) { it, ok := q.Get(context.Background()); return it.Key, !ok },
				Done:     q.Done,
				ShutDown: q.ShutDown,
			}
		})
	})
	b.Run("client-go", func(b *testing.B) {
		load(b, func() benchQueue {
			q := workqueue.NewTyped[string]()
			return benchQueue{Add: q.Add, Get: q.Get, Done: q.Done, ShutDown: q.ShutDown}
		})
	})
}

func benchmarkKeys() []string {
	keys := make([]string, benchKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/website-%d", i%100, i)
	}
	return keys
}

// reportRate reports how many keys went through per second of elapsed time.
func reportRate(b *testing.B, keys int, elapsed time.Duration) {
	b.ReportMetric(float64(keys)*float64(b.N)/elapsed.Seconds(), "keys/s")
}

// BenchmarkQueueBurst adds 500,000 keys, then takes them all, in one goroutine.
func BenchmarkQueueBurst(b *testing.B) {
	keys := benchmarkKeys()
	benchQueues(b, func(b *testing.B, open func() benchQueue) {
		for range b.N {
			q := open()
			for _, key := range keys {
				q.Add(key)
			}
			for range keys {
				key, _ := q.Get()
				q.Done(key)
			}
			q.ShutDown()
		}
		reportRate(b, len(keys), b.Elapsed())
	})
}

// BenchmarkQueueSteady takes each key as it is added, in one goroutine.
func BenchmarkQueueSteady(b *testing.B) {
	keys := benchmarkKeys()
	benchQueues(b, func(b *testing.B, open func() benchQueue) {
		for range b.N {
			q := open()
			for _, key := range keys {
				q.Add(key)
				got, _ := q.Get()
				q.Done(got)
			}
			q.ShutDown()
		}
		reportRate(b, len(keys), b.Elapsed())
	})
}

// BenchmarkQueueWorkers has one goroutine add 500,000 keys while 8 take them.
func BenchmarkQueueWorkers(b *testing.B) {
	keys := benchmarkKeys()
	benchQueues(b, func(b *testing.B, open func() benchQueue) {
		for range b.N {
			q := open()
			var left, workers sync.WaitGroup
			left.Add(len(keys))
			for range 8 {
				workers.Go(func() {
					for {
						key, shutdown := q.Get()
						if shutdown {
							return
						}
						q.Done(key)
						left.Done()
					}
				})
			}
			for _, key := range keys {
				q.Add(key)
			}
			left.Wait()
			q.ShutDown()
			workers.Wait()
		}
		reportRate(b, len(keys), b.Elapsed())
	})
}

// BenchmarkQueueBacklog has 8 goroutines take 500,000 keys that are ready.
func BenchmarkQueueBacklog(b *testing.B) {
	keys := benchmarkKeys()
	benchQueues(b, func(b *testing.B, open func() benchQueue) {
		var elapsed time.Duration
		for range b.N {
			q := open()
			for _, key := range keys {
				q.Add(key)
			}
			start := time.Now()
			var left, workers sync.WaitGroup
			left.Add(len(keys))
			for range 8 {
				workers.Go(func() {
					for {
						key, shutdown := q.Get()
						if shutdown {
							return
						}
						q.Done(key)
						left.Done()
					}
				})
			}
			left.Wait()
			elapsed += time.Since(start)
			q.ShutDown()
			workers.Wait()
		}
		reportRate(b, len(keys), elapsed)
	})
}

// BenchmarkQueueDelays sets 500,000 delays and cancels each by an event.
func BenchmarkQueueDelays(b *testing.B) {
	keys := benchmarkKeys()
	for range b.N {
		q := New(Options{})
		for i, key := range keys {
			q.AddAfter(key, operation.Of(operation.Requeue), Background, time.Hour-time.Duration(i%1000)*time.Second,
				RequeueDelay)
		}
		for _, key := range keys {
			q.Add(key, operation.Of(operation.Put), Live)
		}
		q.ShutDown()
	}
	reportRate(b, len(keys), b.Elapsed())
}

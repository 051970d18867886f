package metrics_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/metrics"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dispatcher is a controller whose reconciles do nothing, for many keys.
type dispatcher struct {
	c    *controller.Controller[*site]
	keys []string
	left sync.WaitGroup
}

func startDispatcher(b *testing.B, kind string, keys int, opts ...controller.Option) *dispatcher {
	b.Helper()
	_, js := natstest.Connect(b, natstest.Start(b).URL())
	sites, err := entity.NewClient[*site](b.Context(), js, entity.Config{Kind: kind, Bucket: "sites"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sites.Close)
	d := &dispatcher{}
	d.left.Add(keys)
	d.c, err = controller.New(kind, sites, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) {
			d.left.Done()
			return controller.Result{}, nil
		}), append(opts, controller.WithResyncInterval(0))...)
	if err != nil {
		b.Fatal(err)
	}
	for i := range keys {
		name := fmt.Sprint("site-", i)
		if err := sites.Create(b.Context(), &site{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			b.Fatal(err)
		}
		d.keys = append(d.keys, name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.c.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	d.left.Wait()
	return d
}

// round reconciles all keys some times and returns how long one took.
func (d *dispatcher) round(times int) time.Duration {
	began := time.Now()
	for range times {
		d.left.Add(len(d.keys))
		for _, key := range d.keys {
			d.c.Enqueue(key, controller.OperationResync)
		}
		d.left.Wait()
	}
	return time.Since(began) / time.Duration(times*len(d.keys))
}

// BenchmarkDispatch measures what metrics add to a key, from the queue to the end of an empty reconcile, in turns with
// a controller without. The median of the rounds' differences is what counts: the machine does other things, too.
func BenchmarkDispatch(b *testing.B) {
	const keys, times = 1000, 10
	plain := startDispatcher(b, "Plain", keys)
	observed := startDispatcher(b, "Observed", keys, metrics.New().Controller())
	plain.round(times)
	observed.round(times)
	var without, with []time.Duration
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 {
			without = append(without, plain.round(times))
			with = append(with, observed.round(times))
		} else {
			with = append(with, observed.round(times))
			without = append(without, plain.round(times))
		}
	}
	quick := func(all []time.Duration) float64 { slices.Sort(all); return float64(all[len(all)/10]) }
	b.ReportMetric(quick(without), "ns/key-without")
	b.ReportMetric(quick(with), "ns/key-with")
	b.ReportMetric(100*(quick(with)/quick(without)-1), "%more")
	b.ReportMetric(0, "ns/op")
}

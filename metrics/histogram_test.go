package metrics

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestDurationsAreCountedAsPrometheusDoes, by each set of buckets, at and beside their bounds.
func TestDurationsAreCountedAsPrometheusDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		d := newDurations(reconcileBuckets, queueBuckets)
		sets := [][]float64{reconcileBuckets, queueBuckets}
		theirs := make([]prometheus.Histogram, len(sets))
		for i, set := range sets {
			theirs[i] = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "theirs", Buckets: set})
		}
		observe := func(took time.Duration) {
			d.observe(took)
			for _, h := range theirs {
				h.Observe(float64(max(0, took)) / 1e9)
			}
		}
		observe(-time.Second)
		observe(0)
		observe(1<<63 - 1)
		for _, set := range sets {
			for _, bound := range set {
				for beside := range time.Duration(3) {
					observe(time.Duration(nanoseconds(bound)) + beside - 1)
				}
			}
		}
		for range 10_000 {
			observe(time.Duration(random.Int64N(1 << random.IntN(40))))
		}
		for i, set := range sets {
			out := make(chan prometheus.Metric, 1)
			d.send(out, prometheus.NewDesc("ours", "", nil, nil), set)
			var got, want dto.Metric
			if err := (<-out).Write(&got); err != nil {
				t.Fatal(err)
			}
			if err := theirs[i].Write(&want); err != nil {
				t.Fatal(err)
			}
			ours, other := got.GetHistogram(), want.GetHistogram()
			if ours.GetSampleCount() != other.GetSampleCount() || len(ours.Bucket) != len(other.Bucket) {
				t.Fatalf("%d of %d, %d buckets of %d", ours.GetSampleCount(), other.GetSampleCount(), len(ours.Bucket),
					len(other.Bucket))
			}
			for j, bucket := range ours.Bucket {
				if bucket.GetCumulativeCount() != other.Bucket[j].GetCumulativeCount() {
					t.Errorf("le %v: %d, want %d", bucket.GetUpperBound(), bucket.GetCumulativeCount(),
						other.Bucket[j].GetCumulativeCount())
				}
			}
		}
	})
}

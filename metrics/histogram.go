package metrics

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The upper bounds of the buckets, in seconds, as controller-runtime has them.
var (
	reconcileBuckets = []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
		1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
	queueBuckets = prometheus.ExponentialBuckets(10e-9, 10, 12)
)

// durations counts durations by several sets of buckets at once. That is two atomic additions; the same in Prometheus's
// own histograms, one for each metric, costs a tenth of what an empty reconcile takes.
type durations struct {
	bounds []int64 // of all sets, in nanoseconds
	first  [65]int // by the number of bits of a duration: the first bucket that may be its own
	counts []atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

func newDurations(sets ...[]float64) *durations {
	d := &durations{}
	for _, set := range sets {
		for _, bound := range set {
			d.bounds = append(d.bounds, nanoseconds(bound))
		}
	}
	slices.Sort(d.bounds)
	d.bounds = slices.Compact(d.bounds)
	d.counts = make([]atomic.Uint64, len(d.bounds)+1)
	for n := 1; n < len(d.first); n++ {
		d.first[n], _ = slices.BinarySearch(d.bounds, int64(1)<<min(n-1, 62))
	}
	return d
}

// nanoseconds is the longest duration that is not more than so many seconds, as numbers of Prometheus are compared.
func nanoseconds(seconds float64) int64 {
	n := int64(math.Round(seconds * 1e9))
	if float64(n)/1e9 > seconds {
		n--
	}
	return n
}

// observe counts one; less than nothing is nothing.
func (d *durations) observe(took time.Duration) {
	n := max(0, int64(took))
	bucket := d.first[bits.Len64(uint64(n))]
	for bucket < len(d.bounds) && d.bounds[bucket] < n {
		bucket++
	}
	d.counts[bucket].Add(1)
	d.sum.Add(n)
}

// send sends what was counted by one of the sets of buckets.
func (d *durations) send(out chan<- prometheus.Metric, desc *prometheus.Desc, set []float64, labels ...string) {
	sum := time.Duration(d.sum.Load()) // first: it is never of more than are counted
	buckets := make(map[float64]uint64, len(set))
	var all uint64
	next := 0
	for i := range d.counts {
		all += d.counts[i].Load()
		if next < len(set) && i < len(d.bounds) && d.bounds[i] == nanoseconds(set[next]) {
			buckets[set[next]] = all
			next++
		}
	}
	out <- prometheus.MustNewConstHistogram(desc, all, sum.Seconds(), buckets, labels...)
}

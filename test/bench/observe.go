package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// observer notes the reconciles of a controller under test: which keys came, when, and how long after they were
// written.
type observer struct {
	began      time.Time
	reconciles atomic.Int64

	mu      sync.Mutex
	seen    map[string]int64 // key to the newest version measured
	samples []sample
	target  int
	reached chan struct{}
	last    time.Time // the last reconcile
}

// sample is one version of a primary that was reconciled.
type sample struct {
	At   int64   // when it was written, in nanoseconds since 1970
	Took float64 // seconds until Reconcile had read it
}

func newObserver() *observer {
	return &observer{began: time.Now(), seen: map[string]int64{}}
}

// reconciled notes that a reconcile read a version. A version that was noted before, or has no time, is no new sample.
func (o *observer) reconciled(key string, sent int64) {
	now := time.Now()
	o.reconciles.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.seen[key]
	o.last = now
	if !known || sent > before {
		o.seen[key] = sent
		if sent > o.began.UnixNano() {
			o.samples = append(o.samples, sample{At: sent, Took: float64(now.UnixNano()-sent) / 1e9})
		}
	}
	if o.reached != nil && len(o.seen) >= o.target {
		close(o.reached)
		o.reached = nil
	}
}

// await waits until n keys were reconciled.
func (o *observer) await(ctx context.Context, n int) error {
	o.mu.Lock()
	if len(o.seen) >= n {
		o.mu.Unlock()
		return nil
	}
	reached := make(chan struct{})
	o.target, o.reached = n, reached
	o.mu.Unlock()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitCalm waits until nothing was reconciled for a while.
func (o *observer) awaitCalm(ctx context.Context, quiet time.Duration) error {
	tick := time.NewTicker(quiet / 10)
	defer tick.Stop()
	for {
		o.mu.Lock()
		calm := time.Since(o.last) >= quiet
		o.mu.Unlock()
		if calm {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns the samples so far and forgets them.
func (o *observer) take() []sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	samples := o.samples
	o.samples = nil
	return samples
}

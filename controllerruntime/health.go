package controllerruntime

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// degradations are what does not work now, for Stats and for the user's callback.
type degradations struct {
	asking sync.Mutex // held while a source is asked how it is, so that news come in order

	mu     sync.Mutex
	byName map[string]error
	news   []func() // calls of the callback to come
	wake   chan struct{}

	recordsFailing, leaseFailing atomic.Bool
}

// tell calls the user's callback, from one goroutine and without a lock of anybody's: news come from within the caches.
func (d *degradations) tell(ctx context.Context) {
	for ended := false; !ended; {
		select {
		case <-d.wake:
		case <-ctx.Done():
			ended = true // but what is known by now is told
		}
		d.tellNow()
	}
}

func (d *degradations) tellNow() {
	d.mu.Lock()
	news := d.news
	d.news = nil
	d.mu.Unlock()
	for _, call := range news {
		call()
	}
}

// set notes how something is now, and tells whether that is news.
func (d *degradations) set(name string, err error) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.byName[name]
	switch {
	case err == nil:
		delete(d.byName, name)
	case d.byName == nil:
		d.byName = map[string]error{name: err}
	default:
		d.byName[name] = err
	}
	same := err == nil && before == nil || err != nil && before != nil && err.Error() == before.Error()
	return !same
}

func (d *degradations) later(call func()) {
	d.mu.Lock()
	d.news = append(d.news, call)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *degradations) all() map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.byName)
}

// sourceHealth reports a source that degrades or heals. The others go on.
func (e *engine) sourceHealth(ctx context.Context, s source) { e.changeHealth(ctx, s.String(), s.err) }

func (e *engine) setHealth(ctx context.Context, name string, err error) {
	e.changeHealth(ctx, name, func() error { return err })
}

// changeHealth reports what now returns. It is asked under the lock: of two news at once the one reported last is the
// newer one, so that nothing stays degraded that has healed.
func (e *engine) changeHealth(ctx context.Context, name string, now func() error) {
	e.degraded.asking.Lock()
	defer e.degraded.asking.Unlock()
	err := now()
	if !e.degraded.set(name, err) {
		return
	}
	if err == nil {
		klog.FromContext(ctx).Info("Source works again", "source", name)
	} else {
		klog.FromContext(ctx).Error(err, "Source degraded, the rest goes on", "source", name)
	}
	if f := e.opts.onSourceError; f != nil {
		e.degraded.later(func() { e.callback(ctx, "WithOnSourceError", func() { f(name, err) }) })
	}
}

// recordsSource names the records in Stats and in WithOnSourceError.
const recordsSource = "records"

// recordsDegraded reports that records cannot be written, recordsHealthy that they can again.
func (e *engine) recordsDegraded(ctx context.Context, err error) {
	e.changeHealth(ctx, recordsSource+" (bucket "+e.statusBucket+")", func() error {
		e.degraded.recordsFailing.Store(true)
		return err
	})
}

func (e *engine) recordsHealthy(ctx context.Context) {
	if e.degraded.recordsFailing.Load() {
		e.changeHealth(ctx, recordsSource+" (bucket "+e.statusBucket+")", func() error {
			e.degraded.recordsFailing.Store(false)
			return nil
		})
	}
}

// leaseHealth reports that the lease cannot be read or written, or can again.
func (e *engine) leaseHealth(ctx context.Context, err error) {
	if e.degraded.leaseFailing.Swap(err != nil) || err != nil {
		e.setHealth(ctx, "lease (bucket "+e.statusBucket+")", err)
	}
}

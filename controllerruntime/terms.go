package controllerruntime

import (
	"context"
	"github.com/nagi-runtime/nagi/internal/lease"
	"k8s.io/klog/v2"
	"sync"
)

// term is a time in which this replica works. Its context is cancelled when the lease is lost, or when the grace period
// of a stop is over.
type term struct {
	ctx    context.Context
	stop   context.Context // Run's; when it ends what runs goes on, but nothing new starts
	lease  *lease.Term     // nil without a status bucket
	logger klog.Logger
}

// over tells whether no new reconcile may start. It asks the clock, too: after a pause of the process the end of the
// lease may not have reached ctx yet.
func (t *term) over() bool {
	return t.ctx.Err() != nil || t.stop.Err() != nil || t.lease != nil && t.lease.Over()
}

// terms lets the workers wait for a term.
type terms struct {
	mu      sync.Mutex
	changed *sync.Cond
	current *term
	closed  bool
}

func (ts *terms) init() { ts.changed = sync.NewCond(&ts.mu) }

// await returns the current term, and waits for one if there is none; nil once the controller stops.
func (ts *terms) await() *term {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for ts.current == nil && !ts.closed {
		ts.changed.Wait()
	}
	if ts.closed {
		return nil
	}
	return ts.current
}

func (ts *terms) begin(t *term) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.current = t
	ts.changed.Broadcast()
}

func (ts *terms) end() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.current = nil
}

// over tells whether the controller stops.
func (ts *terms) over() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.closed
}

func (ts *terms) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	ts.changed.Broadcast()
}

func (ts *terms) leading() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.current != nil
}

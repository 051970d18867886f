package controllerruntime

import (
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
)

// externalRuntime is what external.Reconcile gets of a reconcile.
type externalRuntime struct{ *reconcileContext }

var _ external.Runtime = externalRuntime{}

// Owner implements external.Runtime.
func (r externalRuntime) Owner() external.Owner {
	return external.Owner{Kind: r.engine.kind, Key: r.req.Key, Instance: r.engine.instanceID()}
}

// Store implements external.Runtime.
func (r externalRuntime) Store() external.Store { return r.engine.apis.Store(r.req.Key, &r.saving) }

// Gate implements external.Runtime.
func (r externalRuntime) Gate(kind string) external.Gate {
	if gate, guarded := r.engine.apis.Gate(kind, r.req.Key, &r.began); guarded {
		return gate
	}
	return nil
}

// Pending implements external.Runtime.
func (r externalRuntime) Pending(what string, after time.Duration) {
	r.reconcileContext.pending.add(what, after)
}

// ReasonDrifted is the reason of the event about an external resource that has drifted and is left so.
const ReasonDrifted = "Drifted"

// Drifted implements external.Runtime.
func (r externalRuntime) Drifted(what string) {
	r.Warn(ReasonDrifted, what)
}

// pendingNote is what a reconcile waits for, and when to look again.
type pendingNote struct {
	mu    sync.Mutex
	what  string
	after time.Duration
}

// add notes one more thing. The first is kept, and the shortest time.
func (p *pendingNote) add(what string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what == "" || after < p.after {
		p.after = after
	}
	if p.what == "" {
		p.what = what
	}
}

func (p *pendingNote) get() (after time.Duration, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.after, p.what
}

package reconcilectx

import (
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/turn"
)

// externalRuntime is what external.Reconcile gets of a reconcile.
type externalRuntime struct{ *Context }

var _ external.Runtime = externalRuntime{}

// Owner implements external.Runtime.
func (r externalRuntime) Owner() external.Owner {
	primary := r.Primary()
	return external.Owner{Kind: primary.Kind, Key: primary.Key, Instance: primary.Instance}
}

// Store implements external.Runtime.
func (r externalRuntime) Store() external.Store {
	r.savingMade.Do(func() { r.saving = turn.New() })
	return r.config.APIs.Store(r.key, r.saving)
}

// Gate implements external.Runtime.
func (r externalRuntime) Gate(kind string) external.Gate {
	if r.Plan != nil {
		if gate, guarded := r.config.APIs.PlanGate(kind); guarded {
			return gate
		}
		return nil
	}
	if gate, guarded := r.config.APIs.Gate(kind, r.key, &r.began); guarded {
		return gate
	}
	return nil
}

// Pending implements external.Runtime.
func (r externalRuntime) Pending(what string, after time.Duration) {
	r.WaitFor(what, after)
}

// ReasonDrifted is the reason of the event about an external resource that has drifted and is left so.
const ReasonDrifted = "Drifted"

// Drifted implements external.Runtime.
func (r externalRuntime) Drifted(what string) {
	r.Warn(ReasonDrifted, what)
}

// Deleted is told that external.Reconcile has deleted a resource.
func (r externalRuntime) Deleted(resource string) {
	if deleted := r.config.Deleted; deleted != nil && r.Plan == nil {
		deleted(r.key, resource)
	}
}

// Pending returns what the reconcile waits for, and after which time it looks again; "" if it waits for nothing.
func (c *Context) Pending() (after time.Duration, what string) { return c.pending.get() }

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

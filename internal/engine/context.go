package engine

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// runs numbers the reconciles of all controllers of the process.
var runs atomic.Uint64

// newContext returns the context of one reconcile.
func (e *Engine) newContext(t *lifecycle.Term, key string, operations operation.Operations) *reconcilectx.Context {
	c := reconcilectx.NewContext(t.Ctx, &e.contexts, t.Logger, key, operations)
	c.Run = reconcilectx.RunID(runs.Add(1))
	if e.opts.LogConstructor != nil {
		c.WithLogger()
	}
	return c
}

// reconcileHost implements reconcilectx.Host.
type reconcileHost struct{ *Engine }

// Name implements reconcilectx.Host.
func (h reconcileHost) Name() string { return h.name }

// PrimaryOf implements reconcilectx.Host.
func (h reconcileHost) PrimaryOf(key string) reconcilectx.Primary { return h.primaryOf(key) }

// Warn implements reconcilectx.Host.
func (h reconcileHost) Warn(key, reason, message string) { h.warn(key, reason, message) }

// WarnOnce implements reconcilectx.Host.
func (h reconcileHost) WarnOnce(key, object, reason, message string) {
	if h.keys.IsNews(key, object, reason+" "+message) {
		h.Warn(key, reason, message)
	}
}

// Logger implements reconcilectx.Host.
func (h reconcileHost) Logger(
	base logr.Logger, key string, operations operation.Operations, id reconcilectx.RunID,
) logr.Logger {
	f := h.opts.LogConstructor
	if f == nil {
		return base.WithValues("key", key, "operations", operations, "reconcileID", id)
	}
	logger := base.WithValues("key", key) // what is left if f panics
	h.callback(klog.NewContext(context.Background(), base), "WithLogConstructor", func() {
		logger = printable.Logger(f(base, key, operations))
	})
	return logger
}

// Uncovered implements reconcilectx.Host.
func (h reconcileHost) Uncovered() { h.stats.Uncovered.Add(1) }

// primaryOf names the primary with that key.
func (e *Engine) primaryOf(key string) reconcilectx.Primary {
	p := reconcilectx.Primary{Writer: e.contexts.Writer}
	p.Owner = owner.Owner{Kind: e.Kind, Key: key, Instance: e.InstanceID()}
	if stream := e.primary.Stream(); stream.Highest > 0 {
		p.Stamp = owner.Stamp{Stream: stream.Created, Revision: e.primary.View(key).Revision}
		p.Stamp.ContestedFrom = e.life.ContestedFrom(key, p.Stamp.Revision)
	}
	return p
}

// SetOwner makes the primary with that key the owner of obj, and proves it if that is wanted and the place is known.
func (e *Engine) SetOwner(obj metav1.Object, key string, in owner.Resource) {
	e.primaryOf(key).Own(obj)
	owner.Prove(obj, e.opts.Proofs, in)
}

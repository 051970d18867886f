package controllerruntime

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/current"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// reconcileContext is the context of one reconcile. It says for whom it runs, remembers what is written under it, and
// makes its logger when it is asked for one: most reconciles log nothing, and the values cost more than all the rest.
type reconcileContext struct {
	context.Context
	engine *engine
	term   *term
	req    Request
	writes ownwrites.Log

	once   sync.Once
	logged context.Context // the term's, with the reconcile's logger; made when it is asked for

	status   stagedStatus
	recorded bool // what comes of the reconcile is, and the status with it

	pending pendingNote
	began   apisource.Begun
	saving  sync.Mutex // of intents: several resources reconciled side by side share a key
}

func (e *engine) reconcileContext(t *term, req Request) *reconcileContext {
	c := &reconcileContext{Context: t.ctx, engine: e, term: t, req: req}
	if e.opts.logConstructor != nil {
		c.withLogger()
	}
	return c
}

// Value implements context.Context.
func (c *reconcileContext) Value(key any) any {
	switch key {
	case current.Key{}:
		return c
	case ownwrites.Key{}:
		return &c.writes
	case external.RuntimeKey{}:
		return externalRuntime{c}
	}
	value := c.Context.Value(key)
	if _, ok := value.(logr.Logger); ok {
		return c.withLogger().Value(key) // the reconcile's, if the key is logr's
	}
	return value
}

// withLogger returns the term's context with the reconcile's logger.
func (c *reconcileContext) withLogger() context.Context {
	c.once.Do(func() { c.logged = klog.NewContext(c.Context, c.newLogger()) })
	return c.logged
}

func (c *reconcileContext) newLogger() logr.Logger {
	base, f := c.term.logger, c.engine.opts.logConstructor
	if f == nil {
		return base.WithValues("key", c.req.Key, "operations", c.req.Operations,
			"reconcileID", reconcileID(c.engine.runs.Add(1)))
	}
	logger := base.WithValues("key", c.req.Key) // what is left if f panics
	c.engine.callback(c.term.ctx, "WithLogConstructor", func() { logger = f(base, c.req) })
	return logger
}

var _ current.Reconcile = (*reconcileContext)(nil)

// Primary implements current.Reconcile.
func (c *reconcileContext) Primary() current.Primary { return c.engine.primaryOf(c.req.Key) }

// Controller implements current.Reconcile.
func (c *reconcileContext) Controller() string { return c.engine.name }

// Warn implements current.Reconcile.
func (c *reconcileContext) Warn(reason, message string) {
	e := c.engine
	e.event(e.regarding(c.req.Key, e.primary.View(c.req.Key)), eventWarning, reason, message)
}

// Mine implements current.Reconcile.
func (c *reconcileContext) Mine(obj metav1.Object) bool { return c.engine.mine(obj) }

// AwaitName implements current.Reconcile.
func (c *reconcileContext) AwaitName(informer cache.SharedIndexInformer, key string) (news bool) {
	return c.engine.awaitName(informer, key, c.req.Key)
}

// Uncovered implements current.Reconcile.
func (c *reconcileContext) Uncovered() { c.engine.stats.uncovered.Add(1) }

// primaryOf names the primary with that key.
func (e *engine) primaryOf(key string) current.Primary {
	return current.Primary{Kind: e.kind, Key: key, Instance: e.instanceID()}
}

// setOwner makes the primary with that key the owner of obj.
func (e *engine) setOwner(obj metav1.Object, key string) { e.primaryOf(key).Own(obj) }

package controllerruntime

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reconcileContext is the context of one reconcile. It says for whom it runs, remembers what is written under it, and
// makes its logger when somebody asks for one: most reconciles log nothing, and the values cost more than all the rest.
type reconcileContext struct {
	context.Context
	engine *engine
	term   *term
	req    Request
	writes ownwrites.Log

	once   sync.Once
	logger logr.Logger

	status   stagedStatus
	recorded bool // what comes of the reconcile is, and the status with it

	pending pendingNote
	began   apisource.Begun
	saving  sync.Mutex // of intents: several resources reconciled side by side share a key
}

type reconcileKey struct{}

func (e *engine) reconcileContext(t *term, req Request) *reconcileContext {
	c := &reconcileContext{Context: t.ctx, engine: e, term: t, req: req}
	if e.opts.logConstructor != nil {
		c.log()
	}
	return c
}

// Value implements context.Context.
func (c *reconcileContext) Value(key any) any {
	switch key {
	case reconcileKey{}:
		return c
	case ownwrites.Key{}:
		return &c.writes
	case c.engine.loggerKey:
		return c.log()
	case external.RuntimeKey{}:
		return externalRuntime{c}
	}
	return c.Context.Value(key)
}

func (c *reconcileContext) log() logr.Logger {
	c.once.Do(func() {
		base := c.term.logger
		f := c.engine.opts.logConstructor
		if f == nil {
			c.logger = base.WithValues("key", c.req.Key, "operations", c.req.Operations, "reconcileID", reconcileID(c.engine.runs.Add(1)))
			return
		}
		c.logger = base.WithValues("key", c.req.Key) // what is left if f panics
		c.engine.callback(c.term.ctx, "WithLogConstructor", func() { c.logger = f(base, c.req) })
	})
	return c.logger
}

func reconcileOf(ctx context.Context) (*reconcileContext, bool) {
	c, ok := ctx.Value(reconcileKey{}).(*reconcileContext)
	return c, ok
}

// loggerKey learns under which key logr keeps the logger of a context, which it does not export.
func loggerKey() any {
	probe := keyProbe{Context: context.Background()}
	logr.FromContextOrDiscard(&probe)
	return probe.asked
}

type keyProbe struct {
	context.Context
	asked any
}

func (p *keyProbe) Value(key any) any {
	p.asked = key
	return nil
}

// setOwner makes the primary with that key the owner of obj.
func (e *engine) setOwner(obj metav1.Object, key string) {
	entity.SetOwner(obj, e.kind, key, e.instanceID())
}

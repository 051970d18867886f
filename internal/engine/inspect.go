package engine

import (
	"context"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Insides are what an engine works with, for tests of the layers above it.
type Insides struct {
	Queue    *queue.Queue
	Keys     *keytable.Table
	Primary  primary
	Mappings *source.Mappings
	APIs     *apisource.Set
	Teardown *lifecycle.Teardown
	Records  records
	Options  *Options
	Started  *atomic.Bool // Run was called
}

// Inside shows tests what cannot be seen from outside.
func (e *Engine) Inside() Insides {
	return Insides{
		Queue: e.queue, Keys: &e.keys, Primary: e.primary, Mappings: e.mappings, APIs: e.APIs, Teardown: e.teardown,
		Records: e.records, Options: &e.opts, Started: &e.started,
	}
}

// What follows is for package reconciletest, which takes the steps of a worker by hand.

// StartSources starts the sources and waits until they have synced; see Run.
func (e *Engine) StartSources(ctx, life context.Context) error { return e.startSources(ctx, life) }

// Handle brings one key one step further, as a worker does.
func (e *Engine) Handle(t *lifecycle.Term, it queue.Item) lifecycle.Outcome { return e.handle(t, it) }

// Settle acts on what Handle returned.
func (e *Engine) Settle(t *lifecycle.Term, it queue.Item, o *lifecycle.Outcome) { e.settle(t, it, o) }

// Brake is the brake; nil without teardown.
func (e *Engine) Brake() *brake.Brake { return e.brake }

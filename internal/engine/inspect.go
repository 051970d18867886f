package engine

import (
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/teardown"
)

// Insides are what an engine works with, for tests of the layers above it.
type Insides struct {
	Queue    *queue.Queue
	Keys     *keytable.Table
	Primary  primary
	Mappings *source.Mappings
	APIs     *apisource.Set
	Teardown *teardown.Teardown
	Records  *entity.Records
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

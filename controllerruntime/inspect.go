package controllerruntime

import (
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/teardown"
)

// insides are what an engine works with, for tests of the layers above it.
type insides struct {
	Queue    *queue.Queue
	Keys     *keytable.Table
	Primary  primary
	Mappings *source.Mappings
	APIs     *apisource.Set
	Teardown *teardown.Teardown
	Records  *entity.Records
	Options  *engineOptions
	Started  *atomic.Bool // Run was called
}

// inside shows tests what cannot be seen from outside.
func (e *engine) inside() insides {
	return insides{
		Queue: e.queue, Keys: &e.keys, Primary: e.primary, Mappings: e.mappings, APIs: e.apis, Teardown: e.teardown,
		Records: e.records, Options: &e.opts, Started: &e.started,
	}
}

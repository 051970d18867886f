package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Indexed maps an object to the primaries that have its key in one of their indexes. It reads what the cache has by
// now: a primary that comes later is due for that.
func (e *Engine) Indexed(index string) (source.Mapper, error) {
	if err := e.primary.CheckIndex(index); err != nil {
		return nil, err
	}
	return func(_ context.Context, obj metav1.Object) ([]string, error) {
		return e.primary.KeysByIndex(index, source.ObjectKey(obj))
	}, nil
}

// SubjectSource makes a source of a subject of NATS.
func (e *Engine) SubjectSource(config source.SubjectConfig) source.Source {
	config.Changed = e.SourceHealth
	if js := e.primary.JetStream(); js != nil {
		config.Mine = js.Conn() == config.Conn
	}
	config.Lost = func() { e.EnqueueAll(operation.Of(operation.Resync), nil) }
	return source.NewSubject(config, e.mappings)
}

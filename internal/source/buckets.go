package source

import (
	"context"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
)

// Bucket is a bucket that a source watches, and its cache.
type Bucket struct {
	Name       string
	Kind       string // of the entities; "" for their records
	Filter     string // of the keys
	Namespaced bool
	Cache      natsinformer.Informer
}

// Buckets are those of the documents and, unless there are none, of the records.
func (s *NATS[T]) Buckets() []Bucket {
	cfg := s.client.Config()
	of := []Bucket{{cfg.Bucket, cfg.Kind, cfg.Filter, cfg.Namespaced, s.client.Informer()}}
	if records := s.port.Records(); records != nil {
		of = append(of, Bucket{cfg.StatusBucket, "", cfg.Filter, cfg.Namespaced, records.Informer()})
	}
	return of
}

// SharesCache tells of another client whether it shares the cache of this one: one of them was derived from the other.
// Clients of different types never do.
func SharesCache[T entity.IEntity](client entity.IEntityClient[T]) func(other any) bool {
	return func(other any) bool {
		that, sameType := other.(entity.IEntityClient[T])
		return sameType && client.EnginePort().Cache() == that.EnginePort().Cache()
	}
}

// StreamState asks the leader of the stream of the documents.
func (s *NATS[T]) StreamState(ctx context.Context) (entity.StreamState, error) {
	return s.port.StreamState(ctx)
}

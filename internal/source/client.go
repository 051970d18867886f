package source

import (
	"reflect"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
)

// Kind is the kind of the documents.
func (s *NATS[T]) Kind() string { return s.client.Kind() }

// Config is that of the client.
func (s *NATS[T]) Config() entity.Config { return s.client.Config() }

// Type is that of the documents in Go, a pointer.
func (s *NATS[T]) Type() reflect.Type { return reflect.TypeFor[T]() }

// JetStream is what the client was made with; nil where it does not tell.
func (s *NATS[T]) JetStream() jetstream.JetStream {
	if client, ok := s.client.(connected); ok {
		return client.JetStream()
	}
	return nil
}

// connected is a client that tells what it was made with.
type connected interface{ JetStream() jetstream.JetStream }

var _ connected = (*entity.Client[entity.IEntity])(nil)

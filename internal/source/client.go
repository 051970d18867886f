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

// JetStream is what the client was made with; nil where its port does not tell.
func (s *NATS[T]) JetStream() jetstream.JetStream { return s.port.JetStream() }

package engine

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
)

// primary is what the engine, which knows no types, needs of the source of its primaries. See source.Primary.
type primary interface {
	source.Source
	View(key string) view
	Keys() []string
	InvalidKeys() []string
	CheckKey(key string) error
	CheckIndex(name string) error
	KeysByIndex(name, value string) ([]string, error)
	deletes.Primaries
	Encode(ctx context.Context, obj runtime.Object) ([]byte, error)
	UpdateStatus(ctx context.Context, obj entity.IEntity) error
	StatusChange(obj entity.IEntity) (*entity.StatusChange, error)
	Stream() source.Stream
	StreamID() string
	Watches() bool
	StreamState(ctx context.Context) (entity.StreamState, error)
	JetStream() jetstream.JetStream
	Aged(key string) (marker uint64)
	Await(ctx context.Context, sequence uint64) error
}

type view = source.View

// records is what the engine and its rooms need of the records of its primaries: entity.Records implements it.
type records interface {
	record.Records
	lifecycle.Records
	lifecycle.TeardownRecords
	explain.Records
	StreamState(ctx context.Context) (entity.StreamState, error)
	ReservedWritten(ctx context.Context, name string) (time.Time, error)
	record.ShardRecords
	ReservedInformer(prefix string, onError func(error)) (natsinformer.Informer, error)
	FenceBy(of fence.Of)
	FenceRefused() uint64
	LastDocumentLacks(*entity.Record) string
	// BelongTo says whose the records are, Controller who said so last.
	BelongTo(controller string)
	Controller() string
}
